"""Write the archive of Spark's classes (class data sharing), from a training run of Spark.

`python -m operations.cds_archive` writes it unless it exists; `make setup` runs it. It takes about a minute.
"""

import os
import subprocess
import sys
import tempfile

from config.jvm_cds import cds_archive
from config.settings import ROOT, load_settings

TRAINING = "training"


def make() -> None:
    """Create the archive unless it exists; everything works without it, so a failure is only reported."""
    found = cds_archive(load_settings())
    if not found or found.exists():
        return
    print("Archiving Spark's classes for faster starts (about a minute, once) ...", flush=True)
    for old in found.parent.glob("*.jsa"):
        old.unlink()
    found.parent.mkdir(exist_ok=True)
    draft = found.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        environ = {
            "LAKEHOUSE_HOME": folder,
            "LAKEHOUSE_SPARK__MASTER": "local",
            "SPARK_SUBMIT_OPTS": f'-XX:ArchiveClassesAtExit="{draft}" -Xlog:disable',
        }
        command = [sys.executable, "-m", "operations.cds_archive", TRAINING]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False)
    if done.returncode or not draft.exists():
        draft.unlink(missing_ok=True)
        print(f"That failed; Spark starts without it:\n{done.stdout[-500:]}{done.stderr[-1500:]}", file=sys.stderr)
        return
    draft.rename(found)  # atomic


def train() -> None:
    """Load the classes that commands use, in a temporary home: parse, write and read Delta, run a job, query."""
    from pyspark.sql import functions as F

    from config.spark import session
    from streaming.job import jobs
    from streaming.landing.arrival import as_archived
    from streaming.landing.job import parse_and_validate
    from streaming.runner import Runner

    settings = load_settings()
    spark = session(settings, TRAINING)
    topic = next(iter(jobs()["landing"].topics))
    record = spark.range(100).select(
        F.lit(topic).alias("topic"),
        F.lit(0).alias("partition"),
        F.col("id").alias("offset"),
        F.lit(b"").alias("key"),
        F.lit(b"{}").alias("value"),
        F.expr("cast(null as array<struct<key:string,value:binary>>)").alias("headers"),
        F.current_timestamp().alias("timestamp"),
    )
    parse_and_validate(as_archived(record)).toArrow()
    path = str(settings.home / "table")
    record.select("topic", "offset").write.format("delta").save(path)
    spark.read.format("delta").load(path).createTempView("records")
    spark.sql("select topic, count(distinct offset) from records group by topic order by 1").collect()
    following = [job for job in jobs().values() if job.reads]
    Runner(settings, spark).run(following[:1], until_caught_up=True)
    spark.stop()


if __name__ == "__main__":
    train() if sys.argv[1:] == [TRAINING] else make()
