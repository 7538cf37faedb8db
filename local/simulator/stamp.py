"""The arrival stamp: a producer interceptor that lets Spark's Kafka sink set a record's timestamp."""

import hashlib
import os
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from config.settings import Settings

SOURCE = Path(__file__).with_name("ArrivalStamp.java")
CLASS = "local.simulator.ArrivalStamp"


def arrival_stamp(settings: Settings, spark: SparkSession) -> str:
    """Add the interceptor to the session's class path; return its class name for `kafka.interceptor.classes`."""
    source = SOURCE.read_text()
    jar = settings.home / "classes" / f"arrival-stamp-{hashlib.sha256(source.encode()).hexdigest()[:16]}.jar"
    if not jar.exists():
        _compile(spark, source, jar)
    # Not with SQL: ADD JAR fails on a path with a blank or an apostrophe.
    spark.sparkContext._jsc.addJar(jar.as_uri())
    return CLASS


def _compile(spark: SparkSession, source: str, jar: Path) -> None:
    """Compile with Janino, which Spark ships: a Java runtime (JRE) has no compiler."""
    jvm = spark._jvm
    assert jvm is not None  # noqa: S101 - a classic session has its JVM
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    jar.parent.mkdir(parents=True, exist_ok=True)
    draft = jar.with_name(f".{jar.name}.{os.getpid()}")
    with zipfile.ZipFile(draft, "w") as archive:
        for name, code in compiler.getBytecodes().items():
            archive.writestr(name.replace(".", "/") + ".class", bytes(code))
    draft.replace(jar)
