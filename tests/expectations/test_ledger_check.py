"""The ledger check, on a real log: it passes on what landing did, and fails when any term of it is touched."""

from collections import Counter
from collections.abc import Iterator

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from config.settings import Settings
from expectations.ledger_check import check_ledger, check_truth
from lake import ledger
from lake.location import table_location
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import Truth, read_truth
from streaming.job import job_named
from streaming.runner import Runner


@pytest.fixture(scope="module")
def landed(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A log of its own with every defect in it, landed in several micro-batches."""
    mine = settings.at(tmp_path_factory.mktemp("landed"))
    mine = mine.model_copy(update={"streaming": mine.streaming.model_copy(update={"records_per_batch": 1500})})
    broker = Broker(mine)
    broker.start()
    try:
        simulate(mine, Plan(seed=3, events=4000, malformed=0.02, late=0.03, duplicates=0.03), Console(quiet=True))
        Runner(mine, spark).run([job_named("landing")], until_caught_up=True)
        yield mine
    finally:
        broker.stop()


def test_every_record_is_accounted_for_and_every_defect_is_found_by_id(spark: SparkSession, landed: Settings) -> None:
    truth = read_truth(landed)
    verdict = check_ledger(spark, landed)
    assert verdict.faults == []
    assert check_truth(spark, landed, truth) == []
    assert verdict.waiting == 0
    found = {topic: counts["silver"] for topic, counts in verdict.counts.items()}
    assert found == {topic: truth.accepted(topic) for topic in truth.records}
    _shows_a_wrong_truth(spark, landed, truth)


def _shows_a_wrong_truth(spark: SparkSession, landed: Settings, truth: Truth) -> None:
    truth.late["clicks"].append("an id that nobody sent")
    assert any("an id that nobody sent" in fault for fault in check_truth(spark, landed, truth))


def test_a_backlog_is_landed_in_batches_that_are_bounded(landed: Settings) -> None:
    sizes: Counter[int] = Counter()
    for row in ledger.entries(landed):
        sizes[row["batch"]] += row["input"]
    assert len(sizes) > 2
    # Kafka's share of each partition is rounded up.
    assert max(sizes.values()) <= landed.streaming.records_per_batch + len(ledger.landed_up_to(landed, "landing", 1))


TABLES = ["bronze.events", "silver.clicks", "silver.quarantine", "silver.late", "silver.duplicates"]


def test_a_row_that_is_lost_or_doubled_in_any_table_is_found(spark: SparkSession, landed: Settings) -> None:
    paths = {name: str(table_location(landed, name)) for name in TABLES}
    versions = {name: deltalake.DeltaTable(path).version() for name, path in paths.items()}
    # A row of its own for each table, so that no fault hides another.
    rows = {name: _rows(path).slice(n, 1) for n, (name, path) in enumerate(paths.items())}
    places = {name: f"/{row['partition'][0]}/{row['offset'][0]}: " for name, row in rows.items()}
    try:
        for name, path in paths.items():
            deltalake.write_deltalake(path, rows[name], mode="append")
        doubled = check_ledger(spark, landed).faults
        for name, path in paths.items():
            row = rows[name]
            deltalake.DeltaTable(path).delete(f"partition = {row['partition'][0]} and offset = {row['offset'][0]}")
        lost = check_ledger(spark, landed).faults
    finally:
        for name, path in paths.items():
            deltalake.DeltaTable(path).restore(versions[name])
    for name, place in places.items():
        assert any(place in fault for fault in doubled), f"doubled in {name}"
        assert any(place in fault for fault in lost), f"lost in {name}"


def test_a_ledger_that_says_otherwise_is_found_in_every_term(
    spark: SparkSession, landed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = ledger.entries(landed)
    for term in ("input", *ledger.TERMS):
        entries[0][term] += 1
    monkeypatch.setattr(ledger, "entries", lambda *_: entries)
    faults = check_ledger(spark, landed).faults
    for term in ("input", *ledger.TERMS):
        assert any(f"the ledger has {term} = " in fault for fault in faults), term


def test_tables_hold_rows(landed: Settings) -> None:
    """Guard the tests above: an empty table would make them say nothing."""
    for name in ("silver.quarantine", "silver.late", "silver.duplicates"):
        assert _rows(str(table_location(landed, name))).num_rows > 10


def _rows(path: str) -> pa.Table:
    return deltalake.DeltaTable(path).to_pyarrow_table()
