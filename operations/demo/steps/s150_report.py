"""Step: write the report of this run."""

from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step


def run(context: Context) -> bool:
    """Write the report as one page."""
    from dashboard.report import write

    with progress(context.console, "Writing the report"):
        page = write(context.settings)
    context.console.print(f"Report: {page}")
    return True


step = Step(title="Report: this run on one page", part="report", run=run, pages={"Report": "reports/report.html"})
