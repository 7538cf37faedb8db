"""The report: figures of a home on one page that needs no network, and a verdict that follows from them."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from batch import publications, segments
from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from dashboard import charts, report
from dashboard import figures as figures_of
from dashboard.figures import Figures, lines_of_features
from dashboard.verdict import verdict
from lake import batch_log, generations, ledger
from lake.batch import Batch
from lake.location import table_location
from lake.tables import append_once, arrow_schema
from local.simulator.plan import Plan
from local.simulator.truth import Truth, begin, write

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def cost(path: str, cpu: float) -> dict[str, Any]:
    return {"path": path, "what": "", "records": 1000, "seconds": 10.0, "cpu_seconds": cpu, "bytes_written": 2**20,
            "peak_memory": 2**30, "recorded_at": NOON}  # fmt: skip


def compared(**reasons: int) -> dict[str, Any]:
    return {"at": NOON.isoformat(), "tables": {"gold.sessions": {"equal": 90, "by_reason": reasons}}}


FIGURES = Figures(
    flow={"input": 1000, "silver": 960, "quarantined": 10, "erased": 0, "late": 20, "duplicates": 10},
    accuracy=[{"answer": "batch", "hour": NOON, "accuracy": 1.0}, {"answer": "stream", "hour": NOON, "accuracy": 0.97}],
    accurate_by="were generated",
    comparisons=[compared(late=10), compared()],
    costs=[cost("stream", 5), cost("batch", 10), cost("replay", 20)],
    lines={"batch": 700, "replay": 600},
    stored={"bronze": 2**20},
    freshness=[{"answer": "stream", "at": NOON, "seconds": each} for each in (1.0, 2.0, 3.0)],
    certificates=[],
)


def test_a_cheap_replay_that_leaves_nothing_apart_speaks_for_kappa() -> None:
    found = verdict(FIGURES)
    assert found and found.choice == "Kappa"
    assert "2.0 times" in " ".join(found.because)
    assert found.unless


def test_a_dear_replay_speaks_for_lambda() -> None:
    found = verdict(replace(FIGURES, costs=[cost("batch", 10), cost("replay", 90)]))
    assert found and found.choice == "Lambda"


def test_a_replay_costs_what_all_its_steps_do() -> None:
    steps = [("run generation 2", 1000, 10), ("verify generation 2", 0, 70), ("promote generation 2", 0, 10)]
    replay = [{**cost("replay", cpu), "what": what, "records": records} for what, records, cpu in steps]
    other = {**cost("replay", 500), "what": "verify generation 12", "records": 0}
    found = replace(FIGURES, costs=[cost("batch", 10), *replay, other])
    assert found.latest["replay"]["cpu_seconds"] == 90
    assert (verdict(found) or pytest.fail()).choice == "Lambda"


def test_a_simulation_that_has_not_ended_has_no_truth(fresh_home: Settings) -> None:
    truth = Truth(views={"2026-01-05T12:00": 5})
    begin(fresh_home, Plan(seed=1))
    write(fresh_home, Plan(seed=1), truth)
    assert figures_of._generated(fresh_home) == truth.views
    begin(fresh_home, Plan(seed=2))
    assert figures_of._generated(fresh_home) == {}


def test_each_reprocessing_lists_its_commands_and_their_cost() -> None:
    steps = [cost("replay", 20) | {"what": f"{step} generation 2"} for step in ("run", "verify", "promote")]
    costs = [cost("stream", 5), cost("batch", 10) | {"what": "20260105T120000000"}, *steps]
    certificate = {"generation": 2, "tables": {"gold.sessions": {}}}
    batch, replay = replace(FIGURES, costs=costs, certificates=[certificate]).reprocessings
    assert (batch["commands"], batch["cpu_seconds"]) == (["batch run"], 10)
    assert replay["commands"] == ["replay run", "replay verify", "replay promote"]
    assert (replay["which"], replay["tables"], replay["cpu_seconds"]) == ("2", ["gold.sessions"], 60)


def test_rows_without_a_reason_speak_for_nothing() -> None:
    found = verdict(replace(FIGURES, comparisons=[compared(unexplained=1)]))
    assert found and found.choice == "neither yet"


@pytest.mark.parametrize("missing", ["batch", "replay"])
def test_without_both_paths_there_is_no_verdict(missing: str) -> None:
    assert verdict(replace(FIGURES, costs=[each for each in FIGURES.costs if each["path"] != missing])) is None


def test_the_page_needs_nothing_from_outside(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "gather", lambda _: FIGURES)
    page = report.write(fresh_home).read_text()
    assert page.count("<svg") == 8
    assert "On this data, choose Kappa." in page
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "<script" not in page
    assert "<b>2.0 s</b>stream: from arrival until landed, half of the time; 95 % within 2.9 s" in page
    assert "1,000 records arrived through Kafka" in page


def test_an_empty_home_says_what_to_do(fresh_home: Settings) -> None:
    with pytest.raises(LakehouseError, match="nothing to report"):
        report.write(fresh_home)


def test_lines_are_counted_from_the_files_of_a_feature() -> None:
    found = lines_of_features()
    assert found["batch"] > 100
    assert found["replay"] > 100


def test_every_reason_has_its_part_of_the_bar() -> None:
    drawn = charts.parity({"gold.sessions": {"equal": 90, "by_reason": {"late": 10}}})
    assert "sessions" in drawn
    assert "late" in drawn


def test_what_a_path_cost_is_that_of_its_last_run_over_everything() -> None:
    later = [cost("stream", 99) | {"whole": False}, cost("batch", 1) | {"whole": False}]
    found = replace(FIGURES, costs=[cost("batch", 70), *FIGURES.costs, *later])
    assert {path: row["cpu_seconds"] for path, row in found.latest.items()} == {"stream": 5, "batch": 10, "replay": 20}
    assert found.reprocessings[-1]["which"] == ", days that changed"
    alone = replace(FIGURES, costs=later)
    assert {path: row["cpu_seconds"] for path, row in alone.latest.items()} == {"stream": 99, "batch": 1}


def test_every_answer_is_named_beside_the_lines() -> None:
    rows = [{"answer": answer, "at": NOON, "seconds": 2.0} for answer in ("stream", "batch")]
    drawn = charts.freshness(rows)
    assert ">stream</text>" in drawn
    assert ">batch</text>" in drawn


def test_a_long_history_of_freshness_keeps_its_worst_moments() -> None:
    rows = [{"answer": "stream", "at": NOON + timedelta(seconds=n), "seconds": 1.0 + n % 7} for n in range(5_000)]
    rows[2_345]["seconds"] = 600.0
    drawn = charts._thinned(rows)
    assert len(drawn) <= charts.MAX_POINTS
    assert max(row["seconds"] for row in drawn) == 600.0
    assert charts._thinned(rows[:50]) == rows[:50]


def counted(home: Settings, generation: int, views: dict[datetime, int]) -> None:
    table = table_named("gold.views_per_minute")
    empty = dict.fromkeys(table.stored)
    rows = [{**empty, "window_start": minute, "views": count} for minute, count in views.items()]
    append_once(
        table_location(home, table.name, generation), pa.Table.from_pylist(rows, arrow_schema(table)), "test", 1
    )


def closed(home: Settings, generation: int, until: datetime, batch: int = 0) -> None:
    common: dict[str, Any] = {"rows": None, "job": "views_per_minute", "epoch": 1, "settings": home}
    batch_log.record_batch(Batch(**common, id=batch, generation=generation, closed_until=until), 0)


def test_accuracy_covers_hours_that_are_over_and_what_an_answer_has_seen(fresh_home: Settings) -> None:
    one, two, live = NOON, NOON + timedelta(hours=1), NOON + timedelta(days=300)
    counted(fresh_home, 1, {one: 4, one + timedelta(minutes=59): 4, two: 9})
    closed(fresh_home, 1, two + timedelta(hours=1))
    counted(fresh_home, 2, {one: 10, two: 10, live: 3})
    closed(fresh_home, 2, live + timedelta(minutes=5))
    generations.switch(fresh_home, {"gold.views_per_minute": 2}, "promote")
    found = {(row["answer"], row["hour"]): row["accuracy"] for row in figures_of._accuracy(fresh_home, {})}
    assert found == {
        ("stream, as it came", one): 0.8,
        ("stream, as it came", two): 0.9,
        ("stream, replayed (generation 2)", one): 1.0,
        ("stream, replayed (generation 2)", two): 1.0,
    }
    closed(fresh_home, 2, live + timedelta(hours=1), batch=1)
    answers = [row["answer"] for row in figures_of._accuracy(fresh_home, {}) if row["hour"] == live]
    assert answers == ["stream, replayed (generation 2)"]


@pytest.mark.parametrize("generation", [1, 2])
def test_the_flow_is_that_of_the_first_landing(fresh_home: Settings, generation: int) -> None:
    assert set(figures_of._flow(fresh_home).values()) == {0}
    terms = {"input": 9, "silver": 5, "quarantined": 1, "erased": 0, "late": 1, "duplicates": 2}
    common: dict[str, Any] = {"rows": None, "job": "landing", "epoch": 1, "settings": fresh_home}
    for number in (generation, generation + 1):
        for batch in range(2):
            ledger.record_entry([terms], Batch(**common, id=batch, generation=number))
    assert figures_of._flow(fresh_home) == {term: 2 * count for term, count in terms.items()}


def test_of_the_batch_layer_only_what_is_published_counts(fresh_home: Settings) -> None:
    name, day = "gold.views_per_minute", NOON.date()
    table = table_named(name)
    columns = {**dict.fromkeys(table.stored), "window_start": NOON}
    rows = [
        {**columns, "views": views, segments.SEGMENT: segment, segments.RUN: run}
        for segment, run, views in [
            (day, "20260106T000000000", 7),
            (day, "20260107T000000000", 8),
            (day + timedelta(days=1), "20260106T000000000", 100),
        ]
    ]
    schema = arrow_schema(table).append(pa.field(segments.SEGMENT, pa.date32()))
    schema = schema.append(pa.field(segments.RUN, pa.string()))
    deltalake.write_deltalake(
        str(segments.path(fresh_home, name)),
        pa.Table.from_pylist(rows, schema),
        partition_by=[segments.SEGMENT, segments.RUN],
    )
    publications.publish(fresh_home, "20260107T000000000", {name: {day: "20260107T000000000"}})
    found = figures_of._accuracy(fresh_home, {f"{NOON:%Y-%m-%dT%H:%M}": 10})
    assert [(row["answer"], row["accuracy"]) for row in found] == [("batch", 0.8)]
