"""The verdict: figures -> the architecture to choose for this data, the reasons, and what would change it."""

from dataclasses import dataclass
from typing import Any

from dashboard.figures import Figures

# Above this ratio of replay cost to batch cost, a replay costs more than maintaining a second code base.
MAX_REPLAY_COST = 3.0


@dataclass(frozen=True)
class Verdict:
    """The recommendation with its reasons and exceptions."""

    choice: str
    because: list[str]
    unless: list[str]


def verdict(figures: Figures) -> Verdict | None:
    """Derive the verdict; None if a batch run, a replay or a comparison is missing."""
    latest = figures.latest
    if not {"batch", "replay"} <= set(latest) or not figures.comparisons:
        return None
    ratio = _per_record(latest["replay"]) / _per_record(latest["batch"])
    after = figures.comparisons[-1]["tables"]
    differing = sum(sum(each["by_reason"].values()) for each in after.values())
    unexplained = sum(each["by_reason"].get("unexplained", 0) for each in after.values())
    lines = figures.lines.get("batch", 0) - figures.lines.get("replay", 0)
    late = f"{figures.late_share:.1%} of the valid events came too late for the stream"
    if unexplained:
        return Verdict("neither yet", [f"{unexplained:,} rows differ without a reason: find out why first"], [])
    equal = "after a replay, both answers are equal row by row" if not differing else "every differing row has a reason"
    if ratio <= MAX_REPLAY_COST:
        return Verdict(
            "Kappa",
            [
                f"{late}, and {equal}",
                f"a replay of everything, proved and promoted, took {ratio:.1f} times the processor time of a batch "
                "run, checked and published, for each record",
                f"the batch layer is {figures.lines.get('batch', 0):,} lines that exist only for it, replay "
                f"{figures.lines.get('replay', 0):,}",
            ],
            [
                "late events must be counted within hours, every day: a batch run recomputes only the days they touch, "
                "a replay all of history",
                "the log is kept for less time than you may want to correct: then only the archive reaches back",
                f"history grows until a replay, at {latest['replay']['records'] / latest['replay']['seconds']:,.0f} "
                "records a second on this machine, takes longer than you can wait",
            ],
        )
    return Verdict(
        "Lambda",
        [
            f"{late}, and {equal}",
            f"a replay, proved and promoted, took {ratio:.1f} times the processor time of a batch run for each record",
        ],
        [
            f"a second code base ({lines:,} lines more than a replay needs) is more than your team can keep in step",
            "corrections are rare: then a dear replay now and then is cheaper than a batch layer every night",
        ],
    )


def _per_record(cost: dict[str, Any]) -> float:
    return float(cost["cpu_seconds"]) / max(int(cost["records"]), 1)
