"""Progress of a step: a spinner with the time on a terminal, a line for each piece of work elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Update = Callable[[str], None]


@contextmanager
def progress(console: Console, what: str) -> Iterator[Update]:
    """Show what is being done while it is done; the function it yields changes the text."""
    if not console.is_terminal:
        console.print(f"{what} …", markup=False)
        yield lambda text: console.print(f"  {text} …", markup=False)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description} …", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what)
        yield lambda text: shown.update(task, description=f"{what}: {text}")
