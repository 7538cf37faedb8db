"""Every topic and every job, on generated events beside the edges of windows, sessions and joins, equals the oracle.

Both are found by their files: what `lakehouse new` adds is tested here without another line.
"""

from collections import Counter
from datetime import timedelta
from itertools import chain

import pyarrow as pa
import pytest
from generated import generated, landed_topics
from gold import numbered, rows_of
from handmade import NOON, Lake
from oracle import Oracle, from_rows
from pyspark.sql import DataFrame, SparkSession

from config.declarations import table_named
from config.settings import Settings
from lake.ordering import first_per_key_spark
from lake.tables import read
from streaming.bounded import lookups, recompute
from streaming.job import Job, jobs

SIDES = ("silver.duplicates", "silver.late", "silver.quarantine")
TOPICS = landed_topics()
# In the shop a click has the product of its impression: not so in generated events.
RELY_ON_THE_SHOP = {"ad_clicks"}


@pytest.fixture(scope="module")
def landed(spark: SparkSession, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, Oracle]:
    """Six hours of generated events of every topic, landed in one batch, and the oracle of the same records."""
    lake = Lake(spark, settings.at(tmp_path_factory.mktemp("bounded")))
    sent = chain.from_iterable(generated(topic, NOON, timedelta(hours=6), 150) for topic in TOPICS.values())
    records = numbered(sorted(sent, key=lambda record: record[4]))
    lake.land(records)
    return lake, Oracle(from_rows([(*record[:5], record[6]) for record in records]))


@pytest.mark.parametrize("name", [*(f"silver.{name}" for name in TOPICS), *SIDES])
def test_generated_events_land_where_the_oracle_says(landed: tuple[Lake, Oracle], name: str) -> None:
    lake, oracle = landed
    wanted = oracle.table(name)
    columns = [column for column in wanted.column_names if column in table_named(name).stored]
    assert wanted
    assert rows_of(lake.settings, name, columns) == Counter(map(repr, wanted.select(columns).to_pylist()))


def pure() -> list[str]:
    """Name the jobs that read landed tables and whose transformation alone gives their table."""
    silver = {f"silver.{name}" for name in TOPICS}
    found = [job.name for job in jobs().values() if job.query.transform and job.reads and set(job.reads) <= silver]
    return [name for name in found if name not in RELY_ON_THE_SHOP]


@pytest.mark.parametrize("name", pure())
def test_a_job_on_bounded_tables_equals_the_oracle_at_every_edge(landed: tuple[Lake, Oracle], name: str) -> None:
    lake, oracle = landed
    job = jobs()[name]
    (table,) = job.writes
    rows = job.apply({source: read(lake.spark, source, lake.settings) for source in job.reads})
    wanted = oracle.table(table)
    found = first_per_key_spark(rows, table_named(table).key, job.bounded.pick_first_by).toArrow().cast(wanted.schema)
    assert wanted
    assert Counter(map(repr, found.to_pylist())) == Counter(map(repr, wanted.to_pylist()))


def inputs(lake: Lake, job: Job) -> dict[str, DataFrame]:
    """Give what a job reads and looks up: landed tables as they are, others as their jobs compute them."""
    writers = {name: each for each in jobs().values() if each.reads for name in each.writes}
    return {
        name: recompute(writers[name], inputs(lake, writers[name]))
        if name in writers
        else read(lake.spark, name, lake.settings)
        for name in (*job.reads, *lookups(job))
    }


@pytest.mark.parametrize("name", [job.name for job in jobs().values() if job.reads])
def test_a_job_recomputed_equals_the_oracle_and_its_own_transformation(landed: tuple[Lake, Oracle], name: str) -> None:
    lake, oracle = landed
    job = jobs()[name]
    (table,) = job.writes
    given = inputs(lake, job)
    found = recompute(job, given).toArrow()
    own = first_per_key_spark(job.apply(given), table_named(table).key, job.bounded.pick_first_by).toArrow()
    wanted = own if name in RELY_ON_THE_SHOP else oracle.table(table)
    wanted = wanted.select([column for column in wanted.column_names if column in found.column_names])
    assert len(wanted)
    assert rows_in(found.select(wanted.column_names).cast(wanted.schema)) == rows_in(wanted)
    if name in pure():
        assert rows_in(found) == rows_in(own.select(found.column_names))


def rows_in(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))
