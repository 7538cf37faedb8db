"""The demo's part on what people read: dbt builds it, and its documents tell what each column means."""

import sys

from config.settings import Settings
from local.catalog import Catalog
from operations.dbt.run import run as dbt


def show_models(settings: Settings) -> bool:
    """Let dbt build every model and write its documents, in this process and its Spark; say whether it could."""
    plain = [] if sys.stdout.isatty() else ["--no-use-colors"]
    try:
        return dbt(settings, [*plain, "run"]) == 0 and dbt(settings, [*plain, "docs", "generate", "--static"]) == 0
    finally:
        Catalog(settings).stop()
