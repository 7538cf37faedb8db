"""Wrong rows in what is served are found in every table, without a reason. Last, as it spoils what was built."""

from typing import Any

import deltalake
import pyarrow as pa
import pytest
from handmade import Lake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from with_batch import published

from config.declarations import landed_tables, table_named
from config.errors import LakehouseError
from expectations.layers import check
from expectations.parity.comparison import comparable_tables, compared
from expectations.parity.reasons import UNEXPLAINED, Explained
from expectations.parity.sides import Side, generation_side
from lake.generations import serving
from lake.location import table_location
from replay import certificate
from replay.manifest import Replay
from replay.promotion import promote

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

NEW_KEY: dict[str, dict[str, Any]] = {"gold.trending": {"rank": 99}, "gold.revenue_per_hour": {"merchant_id": "m-none"}}
NEW_KEY |= {"gold.ad_clicks": {"click_event_id": "none"}, "gold.sessions": {"user_id": "u-none"}}
NEW_KEY |= {"gold.views_per_minute": {"product_id": "p-none"}}
"""By table, the key of a row too many; the others have orders."""

RECORD = ["partition", "offset"]
TAKEN = (*RECORD, "event_id", "arrival_time")
"""What a row of the quarantine has of its record."""

Values = dict[str, Any]
Keys = set[tuple[Any, ...]]


def test_a_wrong_row_in_any_table_is_found_without_a_reason(lake: Lake, built: Replay) -> None:
    honest = compared(lake.settings, *sides(lake, built))
    assert {name for name, each in honest.items() if each.unexplained} == set()
    gold = [table.name for table in comparable_tables() if table.layer == "gold"]
    planted = {name: plant(lake, sides(lake, built)[1], honest[name]) for name in gold}
    found = compared(lake.settings, *sides(lake, built), only=gold)
    assert {name: unexplained(each) for name, each in found.items()} == planted
    for name, each in found.items():
        replaced = keys(values(honest[name].rows.select(*honest[name].key)), honest[name].key) & planted[name]
        assert each.parity.rows - each.unexplained == honest[name].parity.rows - len(replaced)


def test_a_wrong_enriched_click_is_found_without_a_reason(lake: Lake, built: Replay) -> None:
    name = "silver.clicks_enriched"
    honest = compared(lake.settings, *sides(lake, built), only=[name])[name]
    planted = plant(lake, sides(lake, built)[1], honest)
    for tier in ("unknown", "bronze", "gold"):
        # No change of a user landed after a click: an older version, or none, is no reason.
        (row, *_) = (row for row in content(lake, name) if row["tier"] not in (tier, "none", "unknown"))
        rows = [row | {"tier": tier, "tier_event_id": None} if each == row else each for each in content(lake, name)]
        overwrite(lake, name, rows)
        planted |= keys([row], honest.key)
    found = compared(lake.settings, *sides(lake, built), only=[name])[name]
    assert unexplained(found) == planted


def test_a_record_that_silver_lost_doubled_or_changed_is_found_without_a_reason(lake: Lake, built: Replay) -> None:
    """A fourth of the records is lost, a fourth in quarantine; others are doubled, changed, or too many."""
    planted: dict[str, Keys] = {}
    quarantine = content(lake, "silver.quarantine")
    for table in landed_tables():
        rows, broken = content(lake, table.name), [row for row in quarantine if row["topic"] == table.topic]
        lost, valid, (wrong, twice), rest = rows[::4], rows[7::4], rows[1:3], rows[5:]
        kept = [row for number, row in enumerate(rest, 5) if number % 4 in (1, 2)]
        too_many = [wrong | {name: row[name] for name in RECORD} for row in broken[:1]]
        overwrite(lake, table.name, [*kept, twice, twice, wrong | {"content_hash": 0}, *too_many])
        for row in broken[1:2]:
            row["rules"] = ["key_differs"]
        known = {"topic": table.topic, "rules": ["event_time_ahead"], "duplicate_of": None}
        quarantine += [known | {name: row[name] for name in TAKEN} for row in valid]
        planted[table.name] = keys([*lost, *rows[3:4], *valid, wrong, twice, *broken[:2]], RECORD)
    assert sum(row["rules"] == ["key_differs"] for row in quarantine) > 1
    overwrite(lake, "silver.quarantine", quarantine)
    replayed, served = sides(lake, built)
    for complete in (replayed, published(lake.spark, lake.settings)):
        if complete:
            found = compared(lake.settings, complete, served, only=list(planted))
            assert {name: unexplained(each) for name, each in found.items()} == planted


@pytest.mark.slow
def test_silver_is_right_again_once_a_replay_is_accepted(
    lake: Lake, built: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runbook's way out of a landed table that fails its check."""
    rows = content(lake, "silver.clicks")
    overwrite(lake, "silver.clicks", [*rows, rows[-1]])
    assert not all(each.passed for each in check(lake.spark, lake.settings, "silver"))
    found = certificate.verify(lake.spark, lake.settings, built, lambda _: None)
    assert found.unexplained and not found.failures
    monkeypatch.setattr("replay.promotion.reset", lambda *_: None)  # its landing would go on with Kafka: there is none
    with pytest.raises(LakehouseError, match="differ without a reason"):
        promote(lake.spark, lake.settings, built, None, lambda: None)
    assert promote(lake.spark, lake.settings, built, "a click was written twice", lambda: None).passed
    assert all(each.passed for each in check(lake.spark, lake.settings, "silver"))


def sides(lake: Lake, built: Replay) -> tuple[Side, Side]:
    """Read what the replay has built, and what is served, which lacks late events."""
    replayed = generation_side(lake.spark, lake.settings, built.target, "replayed")
    return replayed, generation_side(lake.spark, lake.settings, serving(lake.settings), "served")


def plant(lake: Lake, served: Side, honest: Explained) -> Keys:
    """Change, remove and double a row, rows with late events first, and add one; return their keys."""
    table = table_named(honest.parity.table)
    late = values(honest.rows.filter(F.col("right").isNotNull()).select("right.*"))
    closed, final, key = honest.parity.closed_until, served.frame(table.name), honest.key
    if closed:
        final = final.filter(F.expr(table.final_at or table.changed_at or "event_time") < F.lit(closed))
    same = values(final.join(honest.rows.select(*key), list(key), "left_anti").orderBy(*key).limit(4))
    wrong, missing, twice, copied = (late[:3] + same)[:4]
    before = wrong[WRONG[table.name]]
    changed = wrong | {WRONG[table.name]: "none" if isinstance(before, str) else before + 1000}
    more = copied | new_key(lake, table.name)
    gone = keys([wrong, missing], key)
    kept = [row for row in content(lake, table.name) if not keys([row], key) & gone]
    overwrite(lake, table.name, [*kept, changed, twice, more])
    return keys([wrong, missing, twice, more], key)


def new_key(lake: Lake, name: str) -> Values:
    """Return the key of a row too many; that of an enriched click belongs to a record that was quarantined."""
    if name == "silver.clicks_enriched":
        broken = (row for row in content(lake, "silver.quarantine") if row["topic"] == "clicks")
        return {column: value for column, value in next(broken).items() if column in ("partition", "offset")}
    return NEW_KEY.get(name, {"order_id": "o-none"})


def unexplained(found: Explained) -> Keys:
    return keys(values(found.rows.filter(F.col("reason") == UNEXPLAINED).select(*found.key)), found.key)


def keys(rows: list[Values], key: Any) -> Keys:
    return {tuple(row[name] for name in key) for row in rows}


def values(rows: DataFrame) -> list[Values]:
    found: list[Values] = rows.toArrow().to_pylist()
    return found


def content(lake: Lake, name: str) -> list[Values]:
    """Read what is served of a table, without Spark."""
    found: list[Values] = table_location(lake.settings, name).table().to_pyarrow_table().to_pylist()
    return found


def overwrite(lake: Lake, name: str, rows: list[Values]) -> None:
    table = table_location(lake.settings, name).table()
    schema = table.to_pyarrow_dataset().schema
    deltalake.write_deltalake(table, pa.Table.from_pylist(rows, schema), mode="overwrite")
