"""Run dbt's own command line in this process, on the project's catalog and Spark settings."""

import os
import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import yaml

from config.java import JVM_OPTIONS, with_short_run
from config.settings import ROOT, Settings
from config.spark import environment as spark_environment
from lake.catalog import bring_up, connect
from local.catalog import Catalog
from local.thrift import Thrift

PROFILES = ROOT / "config" / "dbt"
# Commands that read no table: they need neither the catalog nor Spark.
WITHOUT_TABLES = {"ls", "list", "parse", "deps", "clean", "init", "serve", "--version", "--help", "-h"}


def run(settings: Settings, arguments: Sequence[str]) -> int:
    """Bring the catalog up to date, run dbt and return its exit code.

    dbt takes the process's Spark session and turns ANSI mode off in it, so this process must have no other use for it.
    """
    os.environ.update(environment(settings))
    with ThreadPoolExecutor(1) as starting:
        ready = starting.submit(_prepare, settings, arguments)
        from dbt.cli.main import cli  # takes seconds, while Spark starts

        ready.result()
    try:
        cli.main(args=list(arguments), prog_name="dbt")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def uses_session(arguments: Sequence[str]) -> bool:
    """Tell whether the chosen target runs in this process's Spark session, and not in a Thrift server's."""
    profile = yaml.safe_load((PROFILES / "profiles.yml").read_text())["lakehouse"]
    target = os.environ.get("DBT_TARGET", profile["target"])
    for option, value in pairwise(arguments):
        target = value if option in ("--target", "-t") else target
    for argument in arguments:
        target = argument.removeprefix("--target=") if argument.startswith("--target=") else target
    return bool(profile["outputs"].get(target, {}).get("method") == "session")


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables by which any dbt finds the project, its profiles, its folders and Spark's settings."""
    host, _, port = Thrift(settings).address.rpartition(":")
    return (
        spark_environment(settings)
        | _short_run(settings)
        | {
            "DBT_PROJECT_DIR": str(ROOT),
            "DBT_PROFILES_DIR": str(PROFILES),
            "DBT_TARGET_PATH": str(settings.home / "reports" / "dbt"),
            "DBT_LOG_PATH": str(settings.home / "logs"),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DBT_THRIFT_HOST": host,
            "DBT_THRIFT_PORT": port,
        }
    )


def _short_run(settings: Settings) -> dict[str, str]:
    """Give a local JVM its first compiler only: dbt sends a hundred small queries, which mostly take planning."""
    options = with_short_run(os.environ.get(JVM_OPTIONS, ""))
    return {JVM_OPTIONS: options} if settings.spark.master == "local" else {}


def exports(settings: Settings) -> str:
    """Write the variables as a shell reads them, with the catalog up to date: after it, a plain `dbt` works."""
    _prepare_catalog(settings)
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment(settings).items())


def _prepare(settings: Settings, arguments: Sequence[str]) -> None:
    """Start what the command needs: the session, the catalog alone, or nothing."""
    if WITHOUT_TABLES & set(arguments):
        return
    if uses_session(arguments):
        connect(settings, "lakehouse dbt")
    else:
        _prepare_catalog(settings)


def _prepare_catalog(settings: Settings) -> None:
    """Start the catalog and bring it up to date; Spark starts only if a name has changed."""
    Catalog(settings).start()
    bring_up(settings)
