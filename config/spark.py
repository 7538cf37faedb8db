"""The Spark session, with the settings of config/spark-defaults.conf whoever starts it."""

import os
import sys

from pyspark.sql import SparkSession

from config.jars import jars
from config.java import find_java
from config.rendering import render
from config.settings import ROOT, Settings


def environment(settings: Settings) -> dict[str, str]:
    """Render Spark's settings into the home and give the variables by which any process finds them."""
    conf = settings.home / "conf"
    tmp = settings.home / "tmp"
    logs = settings.home / "logs"
    for folder in (conf, tmp, logs, settings.warehouse):
        folder.mkdir(parents=True, exist_ok=True)
    local = settings.spark.master == "local"
    values = {
        "master": f"local[{settings.spark.cores}]" if local else settings.spark.master,
        "memory": settings.spark.memory,
        "cores": settings.spark.cores,
        "ui": str(settings.spark.ui).lower(),
        "jars": os.pathsep.join(str(jar) for jar in jars("spark", settings)),
        # The launcher splits Java options at blanks unless they are quoted.
        "quoted_tmp": f'"{tmp}"',
        "tmp": tmp,
        "warehouse": settings.warehouse,
        "logs": logs,
    }
    for name in ("spark-defaults.conf", "log4j2.properties"):
        render(ROOT / "config" / name, conf / name, values)
    return {
        "JAVA_HOME": str(find_java().home),
        "SPARK_CONF_DIR": str(conf),
        # The UI listens on every interface unless this says otherwise; spark.driver.bindAddress does not reach it.
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def session(settings: Settings, name: str) -> SparkSession:
    """Start the process's Spark session, or give the one it has."""
    os.environ.update(environment(settings))
    return SparkSession.builder.appName(name).getOrCreate()
