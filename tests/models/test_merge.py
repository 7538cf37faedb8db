"""The Lambda merge: batch before the fence, stream from it on, wherever the fence lies. The committed SQL runs here."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import jinja2
import pytest

from config.declarations import Table, table_named
from config.settings import ROOT

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
MACROS = (ROOT / "config" / "dbt" / "macros" / "merge_at_fence.sql").read_text()


def window(minute: int, views: int) -> dict[str, Any]:
    start = MONDAY + timedelta(minutes=minute)
    end = start + timedelta(minutes=1)
    return {"window_start": start, "window_end": end, "product_id": "p1", "tier": "gold", "views": views}


def session(minute: int, length: int, events: int) -> dict[str, Any]:
    start = MONDAY + timedelta(minutes=minute)
    return {"user_id": "u1", "session_start": start, "session_end": start + timedelta(minutes=length), "events": events}


def relation(table: Table, rows: list[dict[str, Any]]) -> str:
    """Write rows as a subquery, with the table's columns and types."""

    def select(row: dict[str, Any], where: str = "") -> str:
        values = {name: f"'{row[name]}'" if name in row else "null" for name in table.stored}
        columns = (f"cast({value} as {table.columns[name].type}) as `{name}`" for name, value in values.items())
        return f"select {', '.join(columns)}{where}"

    return f"({' union all '.join([select({}, ' where false'), *map(select, rows)])})"


def lambda_answer(built: Any, name: str, batch: list[Any], stream: list[Any], fence: datetime) -> Counter[Any]:
    """Run the model's SQL on hand-made rows; count the values of the table's measure."""
    table, short = table_named(f"gold.{name}"), name
    sql = jinja2.Template(MACROS + (ROOT / "models" / "serving" / f"lambda_{short}.sql").read_text()).render(
        source=lambda *_: relation(table, batch),
        ref=lambda model: (
            f"(select timestamp'{fence}' as complete_until)" if model == "lambda_fence" else relation(table, stream)
        ),
    )
    measure = {
        "views_per_minute": "views",
        "sessions": "events",
        "order_status": "status",
        "order_payments": "order_event_id",
    }[name]
    return Counter(built.process.sql(sql)[measure].to_pylist())


@pytest.mark.parametrize("seconds", [0, 1, 59, 60, 61, 90, 119, 120, 600])
def test_every_window_is_there_once_wherever_the_fence_lies(built: Any, seconds: int) -> None:
    batch, stream = ([window(minute, base + minute) for minute in range(4)] for base in (10, 20))
    found = lambda_answer(built, "views_per_minute", batch, stream, MONDAY + timedelta(seconds=seconds))
    from_batch = [10 + minute for minute in range(4) if (minute + 1) * 60 < seconds]
    assert found == Counter(from_batch + [20 + minute for minute in range(len(from_batch), 4)])


def test_a_window_that_batch_has_only_a_part_of_is_the_streams(built: Any) -> None:
    found = lambda_answer(built, "views_per_minute", [window(0, 5)], [window(0, 7)], MONDAY + timedelta(seconds=30))
    assert found == Counter([7])


def test_a_window_that_the_stream_lost_to_lateness_is_the_batchs(built: Any) -> None:
    found = lambda_answer(built, "views_per_minute", [window(0, 5)], [], MONDAY + timedelta(minutes=5))
    assert found == Counter([5])


def test_a_session_that_the_fence_falls_into_is_the_streams(built: Any) -> None:
    cut_short, whole = session(0, 40, 3), session(0, 70, 5)
    found = lambda_answer(built, "sessions", [cut_short], [whole], MONDAY + timedelta(minutes=35))
    assert found == Counter([5])


def test_a_stream_behind_the_fence_leaves_no_gap(built: Any) -> None:
    batch = [window(minute, 10 + minute) for minute in range(4)]
    found = lambda_answer(built, "views_per_minute", batch, batch[:1], MONDAY + timedelta(minutes=30))
    assert found == Counter([10, 11, 12, 13])


def test_an_order_that_changed_after_the_fence_is_the_streams(built: Any) -> None:
    def order(name: str, status: str, minute: int) -> dict[str, Any]:
        return {"order_id": name, "status": status, "status_time": MONDAY + timedelta(minutes=minute)}

    batch = [order("o1", "placed", 1), order("o2", "sent", 2), order("o3", "lost by the stream", 1)]
    stream = [order("o1", "sent", 9), order("o2", "placed", 1), order("o4", "new", 8)]
    found = lambda_answer(built, "order_status", batch, stream, MONDAY + timedelta(minutes=5))
    assert found == Counter(["sent", "sent", "lost by the stream", "new"])


def test_an_order_placed_again_after_the_fence_is_the_batchs_that_was_placed_first(built: Any) -> None:
    def order(name: str, event_id: str, minute: int) -> dict[str, Any]:
        return {"order_id": name, "order_event_id": event_id, "order_time": MONDAY + timedelta(minutes=minute)}

    # The stream lost the first placing to lateness, and kept a later one.
    batch, stream = [order("o1", "first", 1)], [order("o1", "again", 90), order("o2", "other", 90)]
    found = lambda_answer(built, "order_payments", batch, stream, MONDAY + timedelta(minutes=100))
    assert found == Counter(["first", "other"])
