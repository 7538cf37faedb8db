"""Step: freshness, the time from the arrival of a live event until each answer includes it."""

from rich.table import Table

from operations.demo.context import Context
from operations.demo.step import Step
from streaming.freshness import answers, freshness, percentiles


def run(context: Context) -> bool:
    """Print the freshness of each answer; return whether every answer has the live events."""
    found = percentiles(freshness(context.settings))
    table = Table("from arrival until", "median", "95 % within", title="Freshness")
    for column in table.columns[1:]:
        column.justify = "right"
    for answer, description in answers().items():
        if answer in found:
            table.add_row(description, *(f"{seconds:.1f} s" for seconds in found[answer]))
    context.console.print(table)
    return set(found) == set(answers())


step = Step(title="Freshness: time from an event's arrival until each answer includes it", part="live", run=run)
