"""A table of numbers next to those that were expected."""

from rich.table import Table

from config.terminal import Terminal, styled

Rows = list[tuple[str, int, int]]


def show_equal(console: Terminal, heads: tuple[str, str], groups: list[Rows], title: str | None = None) -> bool:
    """Print each row's expected and found number, with a mark; return whether all are equal."""
    table = Table("", *heads, "", title=title)
    for column in table.columns[1:3]:
        column.justify = "right"
    for rows in groups:
        for what, wanted, found in rows:
            mark = styled("✓", "green") if wanted == found else styled("✗", "red")
            table.add_row(what, f"{wanted:,}", f"{found:,}", mark)
        table.add_section()
    console.print(table)
    return all(wanted == found for rows in groups for _, wanted, found in rows)
