"""Damaged tables of the batch layer, and of what it reads: the commands that the hints name rebuild them."""

from pathlib import Path

import deltalake
import pytest
from damaged import lose_a_file
from gold import catch_up, records_of
from handmade import Lake
from recomputed import recompute
from typer.testing import CliRunner

import lakehouse
from batch import publications, segments
from lake.damage import ENRICHED, damages
from lake.location import table_location
from local.simulator.plan import Plan
from streaming.job import downstream, job_named


def rebuilt_by(hint: str) -> list[str]:
    """Return the words of the first command in a hint."""
    return hint.split(", then:")[0].split("   ")[0].removeprefix("lakehouse ").split()


@pytest.mark.slow
@pytest.mark.jvm
def test_the_commands_rebuild_an_enriched_table_and_a_batch_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.land(records_of(Plan(seed=4, events=300, late=0, duplicates=0, malformed=0)))
    catch_up(lake, [job.name for job in downstream([job_named("clicks_enriched")])])
    assert recompute(lake, full=True).publication
    enriched = Path(str(table_location(lake.settings, ENRICHED)))
    batch = Path(str(segments.path(lake.settings, "silver.clicks")))
    rows = {table: deltalake.DeltaTable(table).to_pyarrow_table().num_rows for table in (enriched, batch)}
    lost = {lose_a_file(enriched), lose_a_file(batch)}
    hints = {Path(each.file.url): each.hint for each in damages(lake.settings)}
    assert hints.keys() == lost

    for module in ("streaming.repair_commands", "config.spark"):
        monkeypatch.setattr(f"{module}.session", lambda *_, **__: lake.spark)
    for hint in hints.values():
        done = CliRunner().invoke(lakehouse.build(), rebuilt_by(hint))
        assert (done.exit_code, done.exception) == (0, None), done.output
    second = Path(str(table_location(lake.settings, ENRICHED, 2)))
    assert deltalake.DeltaTable(second).to_pyarrow_table().num_rows == rows[enriched]
    published = publications.served_publication(lake.settings)
    assert published
    again = deltalake.DeltaTable(batch).to_pyarrow_table([(segments.RUN, "=", published.run)])
    assert again.num_rows == rows[batch]
    (*_, last) = (segments.path(lake.settings, "silver.clicks") / "_delta_log").children("*.json")
    last.write(b"")
    (hint,) = (each.hint for each in damages(lake.settings) if each.file == last)
    remove, compute = hint.split(", then: ")
    assert remove == f"rm '{last}'"
    last.remove()
    done = CliRunner().invoke(lakehouse.build(), rebuilt_by(compute))
    assert (done.exit_code, done.exception) == (0, None), done.output
    published = publications.served_publication(lake.settings)
    assert published
    again = deltalake.DeltaTable(batch).to_pyarrow_table([(segments.RUN, "=", published.run)])
    assert again.num_rows == rows[batch]
    # The generation before stays until it is removed: nobody is served from it.
    left = [each.hint for each in damages(lake.settings) if each.file.url.startswith(str(enriched))]
    assert left == [f"rm -r '{enriched}', then: lakehouse catalog refresh   (a later generation is served)"]
