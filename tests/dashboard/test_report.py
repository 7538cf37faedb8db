"""The report: figures of a home on one page that needs no network, and a verdict that follows from them."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from config.errors import LakehouseError
from config.settings import Settings
from dashboard import charts, report
from dashboard import figures as figures_of
from dashboard.figures import Figures, lines_of_features
from dashboard.verdict import verdict
from local.simulator.plan import Plan
from local.simulator.truth import Truth, begin, write
from streaming import generations

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


def test_a_simulation_that_has_not_ended_tells_no_truth(fresh_home: Settings) -> None:
    truth = Truth(views={"2026-01-05T12:00": 5})
    begin(fresh_home, Plan(seed=1))
    write(fresh_home, Plan(seed=1), truth)
    assert figures_of._generated(fresh_home) == truth.views
    begin(fresh_home, Plan(seed=2))
    assert figures_of._generated(fresh_home) == {}


def test_each_reprocessing_tells_its_commands_and_what_they_cost() -> None:
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
    assert "<b>2.0 s</b>from arrival until the stream shows it" in page
    assert "1,000 records came through Kafka" in page


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


def test_freshness_is_of_what_was_served_as_it_came(fresh_home: Settings) -> None:
    generations.switch(fresh_home, {"silver.late": 2}, "promote")
    (promoted,) = (at for number, at in generations.served_since(fresh_home).items() if number == 2)

    def landed(generation: int, before: float, age: float) -> dict[str, Any]:
        seen = promoted - timedelta(seconds=before)
        return {"generation": generation, "recorded_at": seen, "max_arrival_time": seen - timedelta(seconds=age)}

    entries = [
        landed(1, 60, 4.0),
        landed(1, 50, 90_000.0),  # it had been waiting in the log
        landed(2, 40, 5.0),  # a replay, not served yet
        landed(2, -1, 6.0),
    ]
    assert [(row["answer"], row["seconds"]) for row in figures_of._freshness(fresh_home, entries)] == [
        ("stream", 4.0),
        ("stream", 6.0),
    ]
