"""Step: dbt builds the serving views and marts, and their documentation."""

import sys

from lake.catalog import connect
from operations.dbt.run import run as dbt
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step


def run(context: Context) -> bool:
    """Build every model and the documentation; return whether dbt succeeded."""
    _ = context.spark  # dbt takes the process's session and turns ANSI mode off in it: no later step uses Spark
    with progress(context.console, "Updating the names in the catalog"):
        connect(context.settings, "lakehouse demo")
    plain = [] if sys.stdout.isatty() else ["--no-use-colors"]
    build = dbt(context.settings, [*plain, "run"])
    return build == 0 and dbt(context.settings, [*plain, "docs", "generate", "--static"]) == 0


step = Step(
    title="dbt: serving views and marts",
    part="models",
    run=run,
    pages={"Models (dbt docs)": "reports/dbt/static_index.html"},
)
