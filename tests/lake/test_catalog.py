"""The catalog's views: they exist without the batch layer too, and a change never drops one."""

import json
import os
import subprocess
import sys

import pytest

from config import discovery
from config.settings import Settings
from lake.catalog import queries
from lake.views import described
from local.catalog import Catalog

# The comment of a view survives only if the view is altered in place.
CHANGE = """
import json
from config.settings import load_settings
from lake import catalog
settings = load_settings()
catalog.queries = lambda _: {"gold.sessions": "select 1 as one"}
spark = catalog.connect(settings, "changing")
spark.sql("alter view gold.sessions set tblproperties ('kept' = 'yes')")
catalog.queries = lambda _: {"gold.sessions": "select 2 as two, 3 as three"}
changed = catalog.refresh(spark, settings)
rows = [row.asDict() for row in spark.table("gold.sessions").collect()]
described = {row.col_name: row.data_type for row in spark.sql("describe table extended gold.sessions").collect()}
kept = spark.sql("show tblproperties gold.sessions ('kept')").first().value
print(json.dumps([changed, rows, kept, described["Comment"]]))
"""


def test_without_the_batch_layer_no_name_is_of_it(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "batch.sessions" in queries(fresh_home)
    monkeypatch.setattr(discovery, "PACKAGES", tuple(each for each in discovery.PACKAGES if each != "batch"))
    names = queries(fresh_home)
    assert "gold.sessions" in names
    assert not [name for name in names if name.startswith("batch.")]


@pytest.mark.jvm
def test_a_name_that_changes_is_never_gone(fresh_home: Settings) -> None:
    environ = os.environ | {"LAKEHOUSE_HOME": str(fresh_home.home)}
    try:
        done = subprocess.run([sys.executable, "-c", CHANGE], env=environ, text=True, capture_output=True, check=False)
    finally:
        Catalog(fresh_home).stop()
    assert done.returncode == 0, done.stderr
    changed, rows, kept, comment = json.loads(done.stdout.splitlines()[-1])
    assert changed == ["gold.sessions"]
    assert rows == [{"two": 2, "three": 3}]
    assert kept == "yes"
    assert comment == described("gold.sessions")
