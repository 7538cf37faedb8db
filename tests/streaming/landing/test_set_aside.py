"""A record that breaks landing, in a real log: found, set aside, and landed once the code is fixed."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from handmade import click
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from config.errors import LakehouseError
from config.kafka import python_options
from config.settings import Settings
from expectations.ledger_check import check_ledger
from expectations.quarantine.redrive import redrive
from lake.location import table_location
from lake.tables import read_arrow
from local.broker import Broker
from streaming.commands import app
from streaming.job import LOG, Job, Query, job_named
from streaming.landing.job import parse_and_validate
from streaming.runner import Runner

POISON = "p-poison"


@pytest.fixture
def log(fresh_home: Settings) -> Iterator[Settings]:
    """A log with three clicks, of which the second breaks landing."""
    broker = Broker(fresh_home)
    broker.start()
    try:
        now = datetime.now(UTC)
        with closing(KafkaProducer(**python_options(fresh_home))) as producer:
            for number, product in enumerate(("p1", POISON, "p3")):
                value = json.dumps(click(f"e{number}", now, product_id=product), separators=(",", ":")).encode()
                producer.send("clicks", value, key=b"u1", partition=0).get(timeout=300)
        yield fresh_home
    finally:
        broker.stop()


def breaking() -> Job:
    """Return landing with code that fails, in Spark, for one product."""
    product = F.col("event.product_id")
    checked = F.when(product == POISON, F.raise_error(F.lit("cannot parse"))).otherwise(F.col("event_id"))
    transform = Query(transform=lambda streams: parse_and_validate(streams[LOG]).withColumn("event_id", checked))
    return replace(job_named("landing"), query=transform)


def test_a_record_that_breaks_landing_is_found_set_aside_and_landed_after_the_fix(
    log: Settings, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        with pytest.raises(LakehouseError, match="cannot parse"):
            Runner(log, spark).run([breaking()], until_caught_up=True)
    with pytest.raises(LakehouseError, match=r"has failed 3 times[\s\S]*clicks/0 offsets 0-2"):
        Runner(log, spark).run([breaking()], until_caught_up=True)

    monkeypatch.setattr("streaming.repair_commands.session", lambda *_, **__: spark)
    monkeypatch.setattr("streaming.repair_commands.job_named", lambda _: breaking())
    found = CliRunner().invoke(app, ["stream", "bisect", "landing"])
    assert found.exit_code == 1, found.output
    assert "clicks/0 offsets 1-1" in found.output
    assert "lakehouse stream set-aside clicks/0/1 --reason" in found.output
    assert not read_arrow(table_location(log, "bronze.events")).num_rows

    aside = ["stream", "set-aside", "clicks/0/1", "--reason", "until the fix is released"]
    assert CliRunner().invoke(app, aside).exit_code == 0
    Runner(log, spark).run([breaking()], until_caught_up=True)
    assert ids(log, "silver.clicks") == ["e0", "e2"]
    (held,) = rows(log, "silver.quarantine")
    assert (held["offset"], held["rules"]) == (1, ["set_aside"])
    archived = rows(log, "bronze.events")
    assert [json.loads(row["value"])["event_id"] for row in archived] == ["e0", "e1", "e2"]
    assert check_ledger(spark, log).faults == []

    # While the code is broken a redrive leaves it; once fixed, it lands as any other record.
    with monkeypatch.context() as patch:
        patch.setattr(
            "expectations.quarantine.redrive.parse_and_validate", lambda frame: breaking().apply({LOG: frame})
        )
        assert redrive(spark, log, 1).moved == {}
    assert redrive(spark, log, 1).moved == {"silver": 1}
    assert sorted(ids(log, "silver.clicks")) == ["e0", "e1", "e2"]
    assert check_ledger(spark, log).faults == []
    late = CliRunner().invoke(app, aside)
    assert "has landed already" in str(late.exception)


def rows(settings: Settings, name: str) -> list[dict[str, Any]]:
    return read_arrow(table_location(settings, name)).sort_by("offset").to_pylist()  # type: ignore[no-any-return]


def ids(settings: Settings, name: str) -> list[Any]:
    return [row["event_id"] for row in rows(settings, name)]
