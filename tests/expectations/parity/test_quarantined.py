"""Quarantined records: that only one side has a record in quarantine is explained by what the record contains."""

import subprocess
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from handmade import NOON, Lake, Log, click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config import git
from config.declarations import TOPICS, table_named
from config.rule_files import FOLDER
from config.settings import ROOT, Settings
from expectations.parity import revalidated
from expectations.parity.landed import compare_landed
from expectations.parity.reasons import LOGIC, QUARANTINED, UNEXPLAINED, Explained
from expectations.parity.sides import Side, generation_side
from lake.generations import serving
from lake.tables import read
from streaming.set_aside import lift, set_aside

CLICKS = table_named("silver.clicks")
VALID, BROKEN, REUSING = 1, 2, 3
"""Offsets; offset 0 is the event whose id is used again."""

MORE = (VALID, 4, 5, 6, 7)
"""The offsets of valid events that nothing is special about."""

Aside: TypeAlias = dict[int, tuple[list[str], Any]]
"""By offset, the rules that a side gives for having a record in quarantine, and the event whose id it reuses."""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Clicks that were landed."""
    lake, log = Lake(spark, settings.at(tmp_path_factory.mktemp("quarantined"))), Log()
    log.send(click("e0"))
    log.send(click("e1"))
    log.send(click("e2", dwell_ms=-1))
    log.send(click("e0", dwell_ms=7))
    for at in MORE[1:]:
        log.send(click(f"e{at}"))
    lake.land(log.records)
    return lake


@pytest.fixture
def told(lake: Lake) -> Callable[..., dict[int, str]]:
    def told(left: Aside, right: Aside) -> dict[int, str]:
        return reasons(compared(lake, left, right))

    return told


def compared(lake: Lake, left: Aside, right: Aside) -> Explained:
    return compare_landed(side(lake, left), side(lake, right), CLICKS, lake.settings)


def reasons(found: Explained) -> dict[int, str]:
    return {row.offset: row.reason for row in found.rows.collect()} if found.by_reason else {}


def side(lake: Lake, aside: Aside) -> Side:
    """Make a side that has only these records in quarantine, and the others in silver."""
    landed = generation_side(lake.spark, lake.settings, serving(lake.settings), "landed")

    def frame(name: str) -> DataFrame:
        if name == "silver.quarantine":
            rows = [("clicks", 0, at, NOON, None, *why) for at, why in aside.items()]
            found = lake.spark.createDataFrame(rows, table_named(name).ddl)
            ids = F.when(F.col("offset").isin(0, REUSING), "e0").otherwise(F.concat(F.lit("e"), "offset"))
            return found.withColumn("event_id", ids)
        if name != CLICKS.name:
            return landed.frame(name)
        every = reduce(DataFrame.union, (as_in_silver(lake, at) for at in range(8) if at not in aside))
        return every.select(*CLICKS.stored)

    return Side("made", frame, landed.tables, lambda _: None, {("clicks", 0): (0, 8)})


def as_in_silver(lake: Lake, offset: int) -> DataFrame:
    """Return the row that a record has in silver, or would have."""
    landed = generation_side(lake.spark, lake.settings, serving(lake.settings), "landed")
    event_id = "e0" if offset in (0, REUSING) else f"e{offset}"
    other = {"event_id": F.lit(event_id), "content_hash": F.col("content_hash") + offset}
    return landed.frame(CLICKS.name).filter("offset = 0").withColumns({"offset": F.lit(offset).cast("bigint"), **other})


NONE: Aside = {BROKEN: (["dwell_not_negative"], None), REUSING: (["event_id_reused"], (0, 0))}
"""What landing does have in quarantine."""


def test_a_valid_record_in_quarantine_and_a_broken_one_in_silver_have_no_reason(lake: Lake) -> None:
    claimed: tuple[Any, ...] = (["dwell_not_negative"], [], ["event_id_reused"], ["set_aside"], None)
    wrong: Aside = {REUSING: NONE[REUSING], **{at: (rules, (0, 0)) for at, rules in zip(MORE, claimed, strict=True)}}
    found = compared(lake, NONE, wrong)
    assert reasons(found) == dict.fromkeys((BROKEN, *MORE), UNEXPLAINED)
    assert found.note.startswith(f"{len(MORE) + 1} records of clicks are in quarantine on one side")


def test_of_two_events_with_one_id_each_side_may_have_another_in_quarantine(
    told: Callable[..., dict[int, str]],
) -> None:
    other = {BROKEN: NONE[BROKEN], 0: (["event_id_reused"], (0, REUSING))}
    assert told(NONE, other) == {0: QUARANTINED, REUSING: QUARANTINED}
    of_another_id = {BROKEN: NONE[BROKEN], 0: (["event_id_reused"], (0, VALID))}
    assert told(NONE, of_another_id)[0] == UNEXPLAINED


def test_a_record_that_someone_set_aside_has_its_reason_also_once_it_has_landed(lake: Lake, tmp_path: Path) -> None:
    mine, (first, second, third) = lake.copied(tmp_path), MORE[:3]
    set_aside(mine.settings, [("clicks", 0, at) for at in (first, second, third)], "a test")
    lift(mine.settings, [("clicks", 0, at) for at in (second, third)])
    aside = NONE | {first: (["set_aside"], None), second: (["set_aside"], None), third: (["dwell_not_negative"], None)}
    assert reasons(compared(mine, NONE, aside)) == {first: QUARANTINED, second: QUARANTINED, third: UNEXPLAINED}


def test_rules_of_an_earlier_commit_are_a_reason(
    told: Callable[..., dict[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = (
        "- {{name: dwell_short, column: {0}, expression: {0} between 0 and 100, severity: quarantine, description: x}}"
    )
    commit(tmp_path, TOPICS / "clicks.yaml", (TOPICS / "clicks.yaml").read_text())
    for rules in ("[]", form.format("dwell_ms"), "- name: cut off", form.format("gone"), "[]"):
        commit(tmp_path, FOLDER / "silver.clicks.yaml", rules)
    before = {VALID: (["dwell_short"], None), BROKEN: (["dwell_short"], None), MORE[1]: (["dwell_long"], None)} | {
        REUSING: NONE[REUSING]
    }
    assert set(told(NONE, before).values()) == {UNEXPLAINED}
    monkeypatch.setattr(git, "ROOT", tmp_path)
    assert told(before, NONE) == {VALID: QUARANTINED, BROKEN: LOGIC, MORE[1]: UNEXPLAINED}


def test_a_record_that_is_not_archived_is_read_from_kafka(
    told: Callable[..., dict[int, str]], lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def between(spark: SparkSession, settings: Settings, ranges: Any) -> DataFrame:
        asked.append(ranges)
        return archive.filter("offset = 0").withColumn("timestamp", F.col("arrival_time"))

    archive = read(lake.spark, "bronze.events", lake.settings)
    monkeypatch.setattr(revalidated, "read", lambda *_: archive.filter("offset > 0"))
    monkeypatch.setattr(revalidated, "between", between)
    other = {BROKEN: NONE[BROKEN], 0: (["event_id_reused"], (0, REUSING))}
    assert told(NONE, other) == {0: QUARANTINED, REUSING: QUARANTINED}
    assert asked == [{("clicks", 0): (0, 1)}]


def commit(project: Path, file: Path, text: str) -> None:
    """Commit a file of this project to a repository of its own."""
    path = project / file.relative_to(ROOT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for arguments in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message", "A change"]):
        subprocess.run(["git", *arguments], cwd=project, check=True)
