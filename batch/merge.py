"""The merge: batch before the fence, stream after it -> the Lambda answer of a table, in SQL, for all who ask.

A row belongs to the batch layer if it was final before the fence's event time, and to the stream if not. A row is on
one side only, whichever layer is asked, so no window is counted twice or missed; a batch that ran long ago, or a
stream that lags, moves the fence and nothing else. A table whose rows are never final is distinguished by their last
change instead.
"""

from config.declarations import Table


def merged(table: Table, batch: str, stream: str, fence: str) -> str:
    """Write the query: batch, stream and fence are relations and a timestamp, in SQL."""
    columns = ", ".join(f"`{name}`" for name in table.stored)
    if table.final_at:
        return (
            f"select {columns} from {batch} where {table.final_at} < {fence}"  # noqa: S608
            f" union all select {columns} from {stream} where {table.final_at} >= {fence}"
        )
    same_key = " and ".join(f"s.`{key}` = b.`{key}`" for key in table.key)
    newer = f"s.{table.changed_at} >= {fence}"
    return (
        f"select {columns} from {batch} b"  # noqa: S608
        f" where not exists (select 1 from {stream} s where {same_key} and {newer})"
        f" union all select {columns} from {stream} s where {newer}"
    )


def comparable(table: Table) -> bool:
    """Tell whether a table has a Lambda answer: gold tables do, by what makes their rows final or last changed them."""
    return table.layer == "gold" and bool(table.final_at or table.changed_at)
