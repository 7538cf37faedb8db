"""Time in tests: tables as they are after forty days, compacted, with a log that was cleaned up."""

import os
import time
from pathlib import Path

from config.declarations import tables
from config.settings import Settings
from lake.location import table_location

FORTY_DAYS = 40 * 24 * 60 * 60


def age(settings: Settings) -> None:
    """Compact the archive and every silver table, remove what that replaced, and clean up a log of 40 days."""
    for name in (name for name, table in tables().items() if table.layer in ("bronze", "silver")):
        location = table_location(settings, name)
        if not location.is_table():
            continue
        table = location.table()
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        table.create_checkpoint()
        log = Path(str(location)) / "_delta_log"
        long_ago = time.time() - FORTY_DAYS
        for file in log.glob("*.json"):
            os.utime(file, (long_ago, long_ago))
        table.cleanup_metadata()
        if table.version() > 0:
            assert not (log / f"{0:020}.json").exists()
