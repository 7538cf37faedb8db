"""Progress of a step: a spinner with the time on a terminal, a line for each piece of work elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from config.terminal import Terminal

Update = Callable[[str], None]


@contextmanager
def progress(console: Terminal, what: str) -> Iterator[Update]:
    """Show what is being done while it is done; the function it yields changes the text."""
    if not console.is_terminal:
        console.print(f"{what} …")
        yield lambda text: console.print(f"  {text} …")
        return
    columns = (SpinnerColumn(), TextColumn("{task.description} …", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what)
        yield lambda text: shown.update(task, description=f"{what}: {text}")
