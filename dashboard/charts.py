"""Charts: figures -> inline SVG, so that the page needs no network and no script."""

from typing import Any

import altair as alt
import vl_convert

WIDTH = 640
MAX_POINTS = 200
REASONS = ["#2a9d6f", "#e0812b", "#8a63d2", "#cf222e"]
COLOURS = ["#2f6fde", "#e0812b", "#2a9d6f", "#8a63d2"]


def accuracy(rows: list[dict[str, Any]]) -> str:
    """Draw the share of page views that each answer counts, by hour."""
    lowest = min((row["accuracy"] for row in rows), default=0.9)
    hour = alt.X("hour:T", title="hour of event time (UTC)", axis=alt.Axis(format="%H:%M"))
    scale = alt.Scale(domain=[max(lowest - 0.02, 0), 1])
    counted = alt.Y("accuracy:Q", title="page views counted", scale=scale, axis=alt.Axis(format=".1%"))
    return _svg(_by_answer([{**row, "hour": row["hour"].isoformat()} for row in rows], hour, counted), 260)


def freshness(rows: list[dict[str, Any]]) -> str:
    """Draw the time from a record's arrival until each answer had it, over time."""
    moment = alt.X("at:T", title="when it had landed (UTC)", axis=alt.Axis(format="%H:%M:%S", tickCount=6))
    # The values may contain no power of ten; then the default axis would have no labels.
    ticks = [number * 10**power for power in range(-1, 7) for number in (1, 2, 5)]
    axis = alt.Axis(values=ticks, format="~r")
    seconds = alt.Y("seconds:Q", title="seconds (logarithmic)", scale=alt.Scale(type="log", nice=False), axis=axis)
    return _svg(_by_answer([{**row, "at": row["at"].isoformat()} for row in _thinned(rows)], moment, seconds), 220)


def flow(counts: dict[str, int]) -> str:
    """Draw the number of records per outcome."""
    names = {
        "silver": "silver",
        "duplicates": "duplicates",
        "late": "late",
        "quarantined": "quarantine",
        "erased": "erased",
    }
    values = [{"where": names[term], "records": counts[term]} for term in names if counts.get(term)]
    chart = (
        alt.Chart(_data(values))
        .mark_bar()
        .encode(
            x=alt.X("records:Q", title="records (square-root scale)", scale=alt.Scale(type="sqrt")),
            y=alt.Y("where:N", title=None, sort=list(names.values())),
            color=alt.Color("where:N", legend=None, scale=alt.Scale(range=COLOURS)),
        )
    )
    return _svg(_labelled(chart, "records:Q", ",.0f"), 34 * max(len(values), 1))


def parity(tables: dict[str, dict[str, Any]]) -> str:
    """Draw, for each table, the share of equal rows, and of differing rows by reason."""
    values = []
    for name, each in tables.items():
        total = each["equal"] + sum(each["by_reason"].values())
        for reason, rows in {"equal": each["equal"], **each["by_reason"]}.items():
            if total:
                values.append({"table": name.removeprefix("gold."), "reason": reason, "share": rows / total})
    chart = (
        alt.Chart(_data(values))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="rows", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("table:N", title=None),
            color=alt.Color("reason:N", title=None, scale=alt.Scale(range=REASONS)),
            order=alt.Order("reason:N"),
        )
    )
    return _svg(chart, 26 * max(len(tables), 1))


def costs(rows: list[dict[str, Any]], measure: str, title: str, form: str = ",.1f") -> str:
    """Draw one cost measure of each path."""
    chart = (
        alt.Chart(_data([{"path": row["path"], "value": row[measure]} for row in rows]))
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title=title),
            y=alt.Y("path:N", title=None, sort=["stream", "batch", "replay"]),
            color=alt.Color("path:N", legend=None, scale=alt.Scale(range=COLOURS)),
        )
    )
    return _svg(_labelled(chart, "value:Q", form), 34 * max(len(rows), 1))


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reduce each answer to at most MAX_POINTS points; each one is the worst of its interval."""
    found: list[dict[str, Any]] = []
    for answer in dict.fromkeys(row["answer"] for row in rows):
        mine = [row for row in rows if row["answer"] == answer]
        step = -(-len(mine) // MAX_POINTS)
        found += [max(mine[at : at + step], key=lambda row: row["seconds"]) for at in range(0, len(mine), step)]
    return found


def _by_answer(rows: list[dict[str, Any]], x: alt.X, y: alt.Y) -> Any:
    """Draw a line per answer; the first is dashed, so that an equal line remains visible beneath it."""
    answers = sorted({row["answer"] for row in rows})
    strokes = alt.Legend(symbolType="stroke", symbolSize=300, symbolStrokeWidth=3)
    colour = alt.Color("answer:N", title=None, legend=strokes, scale=alt.Scale(domain=answers, range=COLOURS))
    dashes = [[6, 6], *([1, 0] for _ in answers[1:])]
    dash = alt.StrokeDash("answer:N", title=None, scale=alt.Scale(domain=answers, range=dashes))
    return alt.Chart(_data(rows)).mark_line(point=True, strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=dash)


def _data(rows: list[dict[str, Any]]) -> Any:
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]


def _labelled(bars: alt.Chart, field: str, form: str) -> Any:
    text = bars.mark_text(align="left", dx=4).encode(text=alt.Text(field, format=form), color=alt.value("#888"))
    return alt.layer(bars, text)


def _svg(chart: Any, height: int) -> str:
    """Render in greys that are legible on white and black, at the full width of the page."""
    drawn = (
        chart.properties(
            width=WIDTH,
            height=height,
            background="transparent",
            padding={"left": 36, "right": 36, "top": 8, "bottom": 8},
        )
        .configure_view(stroke=None)
        .configure_axis(labelColor="#888", titleColor="#888", gridColor="#8883", domainColor="#8886", tickColor="#8886")
        .configure_legend(labelColor="#888", titleColor="#888", orient="bottom", columnPadding=24)
    )
    svg: str = vl_convert.vegalite_to_svg(drawn.to_json())
    return svg.replace("<svg ", '<svg role="img" style="width:100%;min-width:34rem;height:auto" ', 1)
