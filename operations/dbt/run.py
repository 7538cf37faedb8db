"""dbt: its own command line, in a process of its own, on the project's catalog and Spark settings."""

import os
import shlex
from collections.abc import Sequence

from config.settings import ROOT, Settings
from config.spark import environment as spark_environment
from lake.catalog import connect
from local.thrift import Thrift

# What reads no table: it need not wait for Spark.
WITHOUT_TABLES = {"ls", "list", "parse", "deps", "clean", "init", "serve", "--version", "--help", "-h"}


def run(settings: Settings, arguments: Sequence[str]) -> int:
    """Run dbt and give its exit code; names are brought up to date first.

    dbt takes the process's Spark session and turns ANSI mode off in it, so this process must have no other use for it.
    """
    os.environ.update(environment(settings))
    if not WITHOUT_TABLES & set(arguments):
        spark = connect(settings, "lakehouse dbt")
        if "cluster" in arguments or os.environ.get("DBT_TARGET") == "cluster":
            spark.stop()  # only the names were to be brought up to date
    from dbt.cli.main import cli

    try:
        cli.main(args=list(arguments), prog_name="dbt")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def environment(settings: Settings) -> dict[str, str]:
    """Give the variables by which any dbt finds the project, its profiles, its places and Spark's settings."""
    host, _, port = Thrift(settings).address.rpartition(":")
    return spark_environment(settings) | {
        "DBT_PROJECT_DIR": str(ROOT),
        "DBT_PROFILES_DIR": str(ROOT / "config" / "dbt"),
        "DBT_TARGET_PATH": str(settings.home / "reports" / "dbt"),
        "DBT_LOG_PATH": str(settings.home / "logs"),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DBT_THRIFT_HOST": host,
        "DBT_THRIFT_PORT": port,
    }


def exports(settings: Settings) -> str:
    """Write the variables as a shell takes them, names brought up to date: after it, a plain `dbt` works."""
    connect(settings, "lakehouse dbt env").stop()
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment(settings).items())
