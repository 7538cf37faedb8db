"""The Spark session, with the settings of config/spark-defaults.conf for every process."""

import os
import sys

from pyspark.sql import SparkSession

from config.declarations import FILE_RETENTION, LOG_RETENTION
from config.errors import LakehouseError
from config.home import make_home
from config.java import JVM_OPTIONS, find_java, options_for
from config.jvm_cds import cds_options, class_path
from config.jvm_output import filtered_stderr
from config.metastore import connection
from config.rendering import render
from config.settings import ROOT, Settings


def environment(settings: Settings) -> dict[str, str]:
    """Render Spark's settings into the home; return the environment variables that point a process to them."""
    make_home(settings)
    conf = settings.home / "conf"
    tmp = settings.home / "tmp"
    logs = settings.home / "logs"
    for folder in (conf, tmp, logs):
        folder.mkdir(parents=True, exist_ok=True)
    local = settings.spark.master == "local"
    values = {
        "master": f"local[{settings.spark.cores}]" if local else settings.spark.master,
        "memory": settings.spark.memory,
        "cores": settings.spark.cores,
        "ui": str(settings.spark.ui).lower(),
        "jars": os.pathsep.join(str(jar) for jar in class_path(settings)),
        "archive": cds_options(settings),
        # The launcher splits Java options at blanks unless they are quoted.
        "quoted_tmp": f'"{tmp}"',
        "tmp": tmp,
        "warehouse": settings.warehouse,
        "log_retention": f"interval {LOG_RETENTION.days} days",
        "file_retention": f"interval {FILE_RETENTION.days} days",
        "logs": logs,
    }
    for name in ("spark-defaults.conf", "log4j2.properties"):
        render(ROOT / "config" / name, conf / name, values)
    if metastore := connection(settings):
        # With the catalog's password: a file, because a command line is visible to every user.
        render(ROOT / "config" / "hive-site.xml", conf / "hive-site.xml", {"metastore": metastore}, private=True)
    return {
        "JAVA_HOME": str(find_java().home),
        "SPARK_CONF_DIR": str(conf),
        # Without this the UI listens on every interface; spark.driver.bindAddress does not apply to it.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def session(settings: Settings, name: str, *, catalog: bool = False, records: int | None = None) -> SparkSession:
    """Start the process's Spark session, or return the existing one.

    catalog: enables Hive support. records: how many records the session will process, if known; for few of them a
    local JVM starts with the options for short runs.
    """
    os.environ.update(environment(settings))
    if records is not None and settings.spark.master == "local":
        os.environ[JVM_OPTIONS] = options_for(records, os.environ.get(JVM_OPTIONS, ""))
    builder = SparkSession.builder.appName(name)
    if not catalog:
        with filtered_stderr():
            return builder.getOrCreate()
    if not connection(settings):
        raise LakehouseError("The catalog has never been started here.", "lakehouse catalog start")
    with filtered_stderr():
        spark = builder.enableHiveSupport().getOrCreate()
    if spark.conf.get("spark.sql.catalogImplementation") != "hive":
        raise LakehouseError("This process already has a Spark session without the catalog, and it can have only one.")
    return spark
