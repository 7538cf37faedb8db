"""The ledger check, on a real log: it passes on what landing did, and fails when any term of it is touched."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, TopicPartition
from pyspark.sql import SparkSession

import lakehouse
from config.declarations import table_named
from config.errors import LakehouseError
from config.kafka import Offsets, end_offsets, python_options
from config.settings import Settings
from config.terminal import Terminal
from expectations import ledger_proof
from expectations.ledger_check import check_ledger, check_truth
from expectations.ledger_snapshot import LedgerSnapshot
from lake import ledger, losses
from lake.damage import BY_HAND
from lake.location import table_location
from lake.tables import arrow_schema
from local.broker import Broker
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import Truth, read_truth
from streaming.checkpoint import last_checkpoint, reset
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
        simulate(mine, Plan(seed=3, events=4000, malformed=0.02, late=0.03, duplicates=0.03), Terminal(quiet=True))
        Runner(mine, spark).run([job_named("landing")], until_caught_up=True)
        yield mine
    finally:
        broker.stop()


def test_every_record_is_accounted_for_and_every_defect_is_found_by_id(spark: SparkSession, landed: Settings) -> None:
    truth = read_truth(landed)
    check = check_ledger(spark, landed)
    assert check.faults == []
    assert check_truth(spark, landed, truth) == []
    assert check.waiting == 0
    found = {topic: counts["silver"] for topic, counts in check.counts.items()}
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


@pytest.mark.slow
def test_after_a_cut_off_entry_the_check_tells_whether_landing_has_repeated_the_commit(
    spark: SparkSession, landed: Settings
) -> None:
    """The ways out of lake/damage.py; the batch with the last commit is landing's last one."""
    landing = job_named("landing")
    (*_, last) = (table_location(landed, "silver.clicks") / "_delta_log").children("*.json")
    last.remove()
    Runner(landed, spark).run([landing], until_caught_up=True)
    assert check_ledger(spark, landed, full=True).faults, "Spark had recorded the batch"
    recorded = (last_checkpoint(landing, landed, 1).location / "commits").children("[0-9]*")
    max(recorded, key=lambda file: int(file.name)).remove()
    Runner(landed, spark).run([landing], until_caught_up=True)
    assert check_ledger(spark, landed, full=True).faults == []

    (*_, last) = (ledger.folder(landed, "landing", 1) / "_delta_log").children("*.json")
    last.remove()
    assert check_ledger(spark, landed, full=True).waiting
    reset(landing, landed)
    Runner(landed, spark).run([landing], until_caught_up=True)
    check = check_ledger(spark, landed, full=True)
    assert (check.faults, check.waiting) == ([], 0)


TABLES = ["bronze.events", "silver.clicks", "silver.quarantine", "silver.late", "silver.duplicates"]


def test_a_missing_file_is_named_with_the_way_out(
    spark: SparkSession, landed: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lost, *_) = deltalake.DeltaTable(str(table_location(landed, "silver.clicks"))).file_uris()
    file = Path(unquote(lost.removeprefix("file://")))
    monkeypatch.setenv("LAKEHOUSE_HOME", str(landed.home))
    monkeypatch.setattr("expectations.commands.session", lambda *_, **__: spark)
    monkeypatch.setattr(sys, "argv", ["lakehouse", "check", "ledger", "--full"])
    away = file.rename(file.with_suffix(".away"))
    try:
        with pytest.raises(SystemExit) as end:
            lakehouse.main()
    finally:
        away.rename(file)
    printed = "".join(capsys.readouterr().err.split())  # lines are broken to fit the terminal
    assert end.value.code == 2
    assert f"{file}ismissing." in printed
    assert "".join(BY_HAND.split()) in printed


def test_a_row_that_is_lost_or_doubled_in_any_table_is_found(spark: SparkSession, landed: Settings) -> None:
    paths = {name: str(table_location(landed, name)) for name in TABLES}
    versions = {name: deltalake.DeltaTable(path).version() for name, path in paths.items()}
    # A row of its own for each table, so that no fault hides another.
    rows = {name: _rows(path).slice(n, 1) for n, (name, path) in enumerate(paths.items())}
    origins = {name: f"/{row['partition'][0]}/{row['offset'][0]}: " for name, row in rows.items()}
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
    for name, origin in origins.items():
        assert any(origin in fault for fault in doubled), f"doubled in {name}"
        assert any(origin in fault for fault in lost), f"lost in {name}"


def test_a_ledger_that_says_otherwise_is_found_in_every_term(
    spark: SparkSession, landed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = ledger.entries(landed)
    for term in ("input", *ledger.TERMS):
        entries[0][term] += 1
    monkeypatch.setattr(ledger, "recorded", lambda *_: as_table(entries))
    faults = check_ledger(spark, landed).faults
    for term in ("input", *ledger.TERMS):
        assert any(f"the ledger has {term} = " in fault for fault in faults), term


def as_table(entries: ledger.Entry) -> pa.Table:
    return pa.Table.from_pylist(entries, arrow_schema(table_named(ledger.TABLE)))


def test_only_what_came_since_the_last_proof_is_followed(
    spark: SparkSession, landed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = check_ledger(spark, landed, full=True)
    assert (whole.faults, whole.proved_at) == ([], None)
    proof = ledger_proof.load(landed, 1)
    assert proof
    read: list[int] = []
    entries_since = LedgerSnapshot.entries

    def entries(snapshot: LedgerSnapshot, since: Offsets) -> ledger.Entry:
        read.append(len(found := entries_since(snapshot, since)))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(LedgerSnapshot, "entries", entries)
        patch.setattr(ledger, "entries", lambda _, jobs: [] if jobs == ["landing.lost"] else pytest.fail("reads all"))
        again = check_ledger(spark, landed)
    assert 0 < read[0] < len(ledger.entries(landed))
    assert (again.proved_at, again.counts, again.faults) == (proof.proved_at, whole.counts, [])
    since = {(row["topic"], row["partition"]): row["to_offset"] // 64 * 64 for row in ledger.entries(landed)}
    assert proof.since == since | {partition: max(since[partition], end) for partition, end in proof.since.items()}


def test_compaction_leaves_the_proof_valid_and_any_other_change_does_not(spark: SparkSession, landed: Settings) -> None:
    check_ledger(spark, landed)
    path = str(table_location(landed, "silver.clicks"))
    deltalake.DeltaTable(path).optimize.compact()
    assert check_ledger(spark, landed).proved_at
    doubled = _rows(path).slice(0, 1)
    version = deltalake.DeltaTable(path).version()
    try:
        deltalake.write_deltalake(path, doubled, mode="append")
        added = check_ledger(spark, landed)
        deltalake.DeltaTable(path).restore(version)
        restored = check_ledger(spark, landed)
    finally:
        deltalake.DeltaTable(path).restore(version)
    assert (added.proved_at, added.not_covered) == (
        None, "rows of records that were proved before have been added to silver.clicks",
    )  # fmt: skip
    assert len(added.faults) == 1
    assert (restored.faults, restored.not_covered) == ([], "silver.clicks was changed by RESTORE")


def test_a_batch_without_its_entry_is_found(
    spark: SparkSession, landed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [row for row in ledger.entries(landed) if row["batch"] != 1]
    monkeypatch.setattr(ledger, "recorded", lambda *_: as_table(entries))
    faults = check_ledger(spark, landed).faults
    assert any("records in bronze are counted by no ledger entry" in fault for fault in faults)


def test_tables_hold_rows(landed: Settings) -> None:
    """Guard the tests above: an empty table would make them say nothing."""
    for name in ("silver.quarantine", "silver.late", "silver.duplicates"):
        assert _rows(str(table_location(landed, name))).num_rows > 10


def _rows(path: str) -> pa.Table:
    return deltalake.DeltaTable(path).to_pyarrow_table()


def test_landing_goes_on_after_an_accepted_loss_and_the_check_lists_it(spark: SparkSession, landed: Settings) -> None:
    """The last test: it deletes the unread part of a partition, as retention does."""
    check_ledger(spark, landed)
    partition = ("clicks", 0)
    start = datetime(2026, 1, 6, tzinfo=UTC)
    simulate(landed, Plan(seed=4, start=start, events=400, malformed=0.02, late=0.03), Terminal(quiet=True))
    end, last = end_offsets(landed, ["clicks"])[partition], ledger.landed_up_to(landed, "landing", 1)[partition]
    with closing(KafkaAdminClient(**python_options(landed))) as admin:
        admin.delete_records({TopicPartition(*partition): end - 2})
    landing = job_named("landing")
    lost = f"clicks/0 offsets {last:,} to {end - 3:,} ({end - 2 - last:,})"
    with pytest.raises(LakehouseError, match=re.escape(lost)) as error:
        Runner(landed, spark).run([landing], until_caught_up=True)
    assert 'lakehouse stream reset landing --accept-loss "REASON"' in error.value.hint
    reset(landing, landed, accept_loss="retention was too short")
    Runner(landed, spark).run([landing], until_caught_up=True)
    found = check_ledger(spark, landed)
    assert (found.faults, found.waiting, found.not_covered) == ([], 0, None)
    assert found.proved_at, "what was proved before the loss still is"
    assert found.counts["clicks"]["lost"] == end - 2 - last
    assert [loss for loss in found.losses if lost in loss and loss.endswith("retention was too short")]
    whole = check_ledger(spark, landed, full=True)
    # Kafka no longer has the first records of the partition; bronze has those that were landed.
    assert whole.faults == []
    assert whole.counts["clicks"]["bronze"] == found.counts["clicks"]["bronze"]


def test_a_loss_of_another_size_is_found(
    spark: SparkSession, landed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = losses.recorded(landed, "landing")
    recorded[0]["lost"] += 1
    monkeypatch.setattr(losses, "recorded", lambda *_: recorded)
    assert any("the ledger has lost = " in fault for fault in check_ledger(spark, landed).faults)
