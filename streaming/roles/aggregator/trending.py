"""Aggregator: silver.clicks_enriched -> gold.trending, the most viewed products in five-minute windows, one per minute.

State: one row per window, product (and salt), until the watermark has passed the end of the window. Ranks are computed
from the changed counts and the ranks in the table: counts only grow, so a product whose count did not change cannot
rise.
"""

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.batch_log import record_batch
from lake.tables import read_batch_table, upsert
from streaming.job import Bounded, Job, Provenance, Query
from streaming.roles.aggregator import DURING
from streaming.windows.salting import UNSALTED, Salt, Saltable, collect_unsalted

CLICKS = "silver.clicks_enriched"
TABLE = "gold.trending"
RANKS = 10


def views_in_five_minutes(clicks: DataFrame, salt: Salt = UNSALTED) -> DataFrame:
    """Count page views by product in five-minute windows that start every minute."""
    return (
        salt.spread(clicks.filter("type = 'page_view'"))
        .groupBy(F.window("event_time", "5 minutes", "1 minute").alias("span"), "product_id", *salt.key)
        .agg(salt.count().alias("views"))
        .select(
            F.col("span.start").alias("window_start"),
            F.col("span.end").alias("window_end"),
            "product_id",
            "views",
            F.to_date("span.start").alias("day"),
        )
    )


def ranked(counts: pa.Table) -> pa.Table:
    """Rank the products of each window by views, ties by product_id, and keep the first RANKS."""
    keys = ["window_start", "window_end", "product_id", "day"]
    latest = counts.group_by(keys, use_threads=False).aggregate([("views", "max")])
    latest = latest.rename_columns([*keys, "views"])
    order = [("window_start", "ascending"), ("views", "descending"), ("product_id", "ascending")]
    latest = latest.sort_by(order)
    ranks: list[int] = []
    window = None
    for start in latest["window_start"].to_pylist():
        rank = ranks[-1] + 1 if start == window else 1
        window = start
        ranks.append(rank)
    with_rank = latest.append_column("rank", pa.array(ranks, pa.int32()))
    return with_rank.filter(pc.field("rank") <= RANKS).select(list(table_named(TABLE).stored))


def write(batch: Batch) -> None:
    """Update the ranks of the windows whose counts changed in one micro-batch."""
    counts = collect_unsalted(batch, ["views"])
    record_batch(batch, _upsert_ranks(batch, counts))


def _upsert_ranks(batch: Batch, counts: pa.Table) -> int:
    if not len(counts):
        return 0
    windows = pc.unique(counts["window_start"])
    before = read_batch_table(batch, TABLE, pc.field("day").isin(pc.unique(counts["day"])))
    before = before.filter(pc.is_in(before["window_start"], value_set=windows))
    both = pa.concat_tables([counts, before.select(counts.column_names).cast(counts.schema)])
    return upsert(batch, TABLE, ranked(both))


def job() -> Job:
    """Define the job."""
    return Job(
        name="trending",
        role="aggregator",
        version=1,
        reads=(CLICKS,),
        writes=(TABLE,),
        query=Query(
            transform=Saltable(lambda tables, salt: views_in_five_minutes(tables[CLICKS], salt)), output_mode="update"
        ),
        process=write,
        bounded=Bounded(max_event_gap=timedelta(minutes=5), reach=timedelta(minutes=5)),
        provenance=Provenance(
            row_contains_event=f"e.type = 'page_view' and e.product_id = r.product_id and {DURING}",
            row_affected_by_event=f"e.type = 'page_view' and {DURING}",
        ),
    )
