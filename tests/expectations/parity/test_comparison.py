"""Comparison: on tables computed from a few events, every honest difference has its reason, and no planted one has."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import landed_tables, table_named
from config.settings import Settings
from expectations.parity.comparison import comparable_tables, compared
from expectations.parity.reasons import DIMENSION, LATE, ONE_SIDED, UNEXPLAINED, Explained
from expectations.parity.sides import Side, Step
from streaming.bounded import lookups, recompute
from streaming.job import in_stages, jobs
from streaming.landing.write import SIDE_TABLES

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
LATE_ONES = {"v-late", "c-late", "i-late", "o-late", "p-late", "s-late"}
BEYOND = {"v-beyond", "s-beyond"}
"""The last records of their topics, which only the left side has read."""

WRONG = {
    "gold.views_per_minute": "views",
    "gold.trending": "views",
    "gold.revenue_per_hour": "revenue_cents",
    "gold.sessions": "pages",
    "gold.order_payments": "amount_cents",
    "gold.conversions": "amount_cents",
    "gold.order_status": "changes",
    "gold.ad_clicks": "product_id",
    "silver.clicks_enriched": "tier",
}
"""By table, a column that one row has another value in."""

CHANGED_AFTER = (("clicks", 0, 0, 100, 1), ("users", 0, 0, 2, 0), ("users", 0, 2, 3, 2))
"""The batches of a landing in which the last change of u2 landed after the clicks."""

Rows = dict[str, list[dict[str, Any]]]
Tables = Mapping[str, DataFrame]
Steps = Sequence[Step]


def events() -> Rows:
    """Make some events of each topic; those that are late count in the same rows as others on time."""
    views = [("v1", 1, "u1"), ("v-late", 1, "u1"), ("v2", 3, "u2"), ("v3", 70, "u2"), ("v-beyond", 71, "u2")]
    clicks = [click(name, at, user, "page_view") for name, at, user in views]
    clicks += [
        click("i1", 10, "u1", "impression", impression_id="a1"),
        click("k1", 11, "u1", "click", impression_id="a1"),
    ]
    clicks += [click("i-late", 10, "u2", "impression", impression_id="a2")]
    clicks += [click("k2", 11, "u2", "click", impression_id="a2")]
    clicks += [click("c1", 20, "u1", "add_to_cart"), click("c-late", 21, "u1", "add_to_cart")]
    clicks.sort(key=lambda each: each["event_id"] in BEYOND)
    orders = [order(f"o{number}", "order_placed", 30, number) for number in (1, 2, 3)]
    orders += [order("o-late", "order_placed", 31, 4), order("s1", "order_status_changed", 40, 1, status="paid")]
    orders += [order("s-late", "order_status_changed", 42, 1, status="shipped")]
    orders += [order("s2", "order_status_changed", 40, 2, status="paid")]
    orders += [order("s-beyond", "order_status_changed", 50, 2, status="shipped")]
    payments = [order("p1", "payment_received", 35, 1), order("p-late", "payment_received", 36, 2)]
    payments += [order("p3", "payment_received", 37, 3)]
    users = [user("n1", 0, "u1", "gold"), user("n2", 0, "u2", "gold"), user("n3", 60, "u2", "silver")]
    return {"silver.clicks": clicks, "silver.orders": orders, "silver.payments": payments, "silver.users": users}


def click(name: str, minute: int, user: str, type_: str, **fields: Any) -> dict[str, Any]:
    return event(name, minute, user_id=user, type=type_, product_id="p1", dwell_ms=100, **fields)


def order(name: str, type_: str, minute: int, number: int, **fields: Any) -> dict[str, Any]:
    common = {"order_id": f"order{number}", "user_id": "u1", "product_id": "p1", "merchant_id": "m1"}
    return event(name, minute, type=type_, amount_cents=100, **common, **fields)


def user(name: str, minute: int, of: str, tier: str) -> dict[str, Any]:
    since = NOON + timedelta(minutes=minute)
    return event(name, minute, type="user_changed", op="u", user_id=of, tier=tier, valid_from=since)


def event(name: str, minute: int, **fields: Any) -> dict[str, Any]:
    at = NOON + timedelta(minutes=minute)
    return {"event_id": name, "event_time": at, "event_date": at.date(), "partition": 0, **fields}


class Made:
    """Two sides made of the same log: the left one has every event, the right one has set the late ones aside."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.rows = spark, events()
        for rows in self.rows.values():
            for offset, row in enumerate(rows):
                row["offset"] = offset
        self.left = self.gold({name: self.silver(name) for name in self.rows})
        on_time = {name: self.silver(name, without=LATE_ONES | BEYOND) for name in self.rows}
        # The right side has enriched the clicks of u2 before the last change of that user came.
        self.right = self.gold(on_time, before=on_time | {"silver.users": self.silver("silver.users", without={"n3"})})

    def silver(self, name: str, without: Any = frozenset()) -> DataFrame:
        rows = [row for row in self.rows[name] if row["event_id"] not in without]
        return self.typed(name, rows)

    def typed(self, name: str, rows: list[dict[str, Any]]) -> DataFrame:
        table = table_named(name)
        frame = self.spark.createDataFrame([tuple(row.get(each) for each in table.stored) for row in rows], table.ddl)
        return frame.withColumn("valid_to", F.expr(table.valid_to)) if table.valid_to else frame

    def gold(self, silver: Tables, before: Tables | None = None) -> dict[str, DataFrame]:
        """Compute every table from silver; those that look users up, from silver as it was before."""
        found = dict(silver)
        for stage in in_stages([job for job in jobs().values() if job.reads]):
            for job in stage:
                known = found | dict(before) if before and lookups(job) else found
                found[job.writes[0]] = recompute(job, known).localCheckpoint()
        return found

    def side(self, tables: Tables, steps: Steps = ()) -> Side:
        """Make a side of tables; what is late is in silver.late of the right one."""
        has_late = tables is not self.left
        late = [
            {"topic": table_named(name).topic, **row, "arrival_time": row["event_time"] + timedelta(hours=1)}
            for name, rows in self.rows.items()
            for row in rows
            if row["event_id"] in LATE_ONES and has_late
        ]
        aside = {name: self.typed(name, late if name == "silver.late" else []) for name in SIDE_TABLES}
        beyond = BEYOND if has_late else set()
        ends = {name: sum(row["event_id"] not in beyond for row in rows) for name, rows in self.rows.items()}
        ranges = {(str(table_named(name).topic), 0): (0, end) for name, end in ends.items()}
        return Side(
            "", ({**tables, **aside}).__getitem__, frozenset({*tables, *aside}), lambda _: None, ranges, steps=steps
        )


@pytest.fixture(scope="module")
def made(spark: SparkSession) -> Made:
    return Made(spark)


@pytest.fixture(scope="module")
def compare(made: Made, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    home = settings.at(tmp_path_factory.mktemp("compared"))

    def compare(
        left: Tables, right: Tables, only: list[str] | None = None, steps: Steps = CHANGED_AFTER
    ) -> dict[str, Explained]:
        return compared(home, made.side(left), made.side(right, steps), only=only)

    return compare


@pytest.fixture(scope="module")
def honest(made: Made, compare: Callable[..., Any]) -> dict[str, Explained]:
    found: dict[str, Explained] = compare(made.left, made.right)
    return found


def test_every_honest_difference_has_its_reason(honest: dict[str, Explained]) -> None:
    assert set(honest) == {table.name for table in comparable_tables()}
    assert {name for name, each in honest.items() if each.unexplained} == set()
    assert {name for name, each in honest.items() if LATE in each.by_reason} == set(honest) - {"silver.users"}
    assert honest["silver.clicks_enriched"].by_reason[DIMENSION] == 1  # v3
    assert honest["gold.views_per_minute"].by_reason[DIMENSION] == 2  # the same view, by another tier
    assert honest["gold.order_status"].by_reason == {LATE: 1, ONE_SIDED: 1}


def test_a_wrong_row_in_any_table_has_no_reason(
    made: Made, compare: Callable[..., Any], honest: dict[str, Explained]
) -> None:
    gold = [table.name for table in comparable_tables() if table.layer == "gold"]
    spoiled = dict(made.right)
    planted = {}
    for name in gold:
        spoiled[name], planted[name] = spoil(made, name, honest[name])
    found = compare(made.left, spoiled, only=gold)
    assert {name: keys(each) for name, each in found.items()} == planted


def test_a_wrong_row_of_enriched_clicks_has_no_reason(
    made: Made, compare: Callable[..., Any], honest: dict[str, Explained]
) -> None:
    name = "silver.clicks_enriched"
    spoiled, planted = spoil(made, name, honest[name])
    found = compare(made.left, made.right | {name: spoiled}, only=[name])
    assert keys(found[name]) == planted


@pytest.mark.parametrize(
    ("tier", "rank", "reason"),
    [
        ("gold", 1, UNEXPLAINED),  # the change landed with the click: landing commits changes first
        ("gold", None, DIMENSION),  # when it landed is not known
        ("unknown", 2, UNEXPLAINED),  # it landed later, but an earlier one had landed before the click
    ],
)
def test_an_older_version_is_a_reason_only_if_the_newer_one_can_have_landed_after_the_event(
    made: Made, compare: Callable[..., Any], tier: str, rank: int | None, reason: str
) -> None:
    name = "silver.clicks_enriched"
    rows = made.right[name].toArrow().to_pylist()
    (view,) = (row for row in rows if row["event_id"] == "v3")
    view |= {"tier": tier, "tier_event_id": "n2" if tier == "gold" else None}
    steps = [*CHANGED_AFTER[:2], *([("users", 0, 2, 3, rank)] if rank is not None else [])]
    found = compare(made.left, made.right | {name: made.typed(name, rows)}, only=[name], steps=steps)[name]
    assert {row.left.event_id: row.reason for row in found.rows.collect() if row.reason != LATE} == {"v3": reason}


def test_a_side_that_knew_all_versions_has_no_older_one(made: Made, compare: Callable[..., Any]) -> None:
    found = compare(made.left, made.right, only=["silver.clicks_enriched"], steps=())["silver.clicks_enriched"]
    assert keys(found) == {str([0, row["offset"]]) for row in made.rows["silver.clicks"] if row["event_id"] == "v3"}


def spoil(made: Made, name: str, honest: Explained) -> tuple[DataFrame, set[str]]:
    """Change a row, if possible one with a late event; double another one, remove a third, and add one."""
    key = honest.key
    rows = made.right[name].toArrow().to_pylist()
    differing = {key_of(row, key) for row in honest.rows.select(*key).toArrow().to_pylist()}
    rows.sort(key=lambda row: key_of(row, key) not in differing)
    first, twice, missing, others = rows[0], rows[1:2], rows[2:3], rows[3:]
    value = first[WRONG[name]]
    changed = first | {WRONG[name]: "none" if isinstance(value, str) else 1000}
    wrong = [changed, first | other_key(made, name), *twice]
    spoiled = made.typed(name, [*wrong, *twice, *others]).localCheckpoint()
    return spoiled, {key_of(row, key) for row in (*wrong, *missing)}


def other_key(made: Made, name: str) -> dict[str, Any]:
    """Return the key of a row too many; that of an enriched click belongs to a record that is late."""
    if name == "silver.clicks_enriched":
        (late,) = (row["offset"] for row in made.rows["silver.clicks"] if row["event_id"] == "v-late")
        return {"offset": late}
    last = {"gold.sessions": "user_id", "gold.ad_clicks": "click_event_id"}.get(name, table_named(name).key[-1])
    return {last: 99 if last == "rank" else "none"}


def key_of(row: dict[str, Any], key: Any) -> str:
    return str([row[name] for name in key])


def keys(found: Explained) -> set[str]:
    rows = found.rows.filter(F.col("reason") == UNEXPLAINED).select(*found.key).toArrow().to_pylist()
    return {key_of(row, found.key) for row in rows}


def test_a_lost_event_has_no_reason_in_silver_nor_in_any_row_that_it_counted_in(
    made: Made, compare: Callable[..., Any]
) -> None:
    lost = {"v2", "k1", "c1", "o3", "p3", "s1", "n1"}
    silver = {name: made.silver(name, without=LATE_ONES | BEYOND | lost) for name in made.rows}
    lacking = made.gold(silver)
    found = compare(made.left, lacking)
    assert sum(found[table.name].unexplained for table in landed_tables() if table.name in made.rows) == len(lost)
    for table in comparable_tables():
        assert found[table.name].unexplained, table.name
