"""Parse SQL expressions of rules: find their columns; write queries as shell commands."""

import re

# Words of an expression that are SQL, not columns.
_SQL = {
    *(
        "and",
        "or",
        "not",
        "is",
        "null",
        "true",
        "false",
        "in",
        "between",
        "like",
        "rlike",
        "case",
        "when",
        "then",
        "else",
    ),
    *("end", "timestamp", "date", "interval", "minute", "minutes", "hour", "hours", "day", "days", "second", "seconds"),
    *("as", "cast", "string", "int", "bigint", "double", "boolean"),
}
_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_]*(?=\s*\()|[A-Za-z_][A-Za-z0-9_]*|.", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def asking(query: str) -> str:
    """Return a query as a `lakehouse sql` command, quoted for a shell."""
    escaped = re.sub(r'([\\"$`])', r"\\\1", query)
    return f'lakehouse sql "{escaped}"'


def columns_in(expression: str) -> list[str]:
    """List the columns of an expression, each once, in order."""
    return list(dict.fromkeys(word for word, is_column in words(expression) if is_column))


def words(expression: str) -> list[tuple[str, bool]]:
    """Split an expression into tokens; each comes with whether it is a column."""
    found = []
    for match in _TOKEN.finditer(expression):
        word = match[0]
        calls = expression[match.end() :].lstrip().startswith("(")
        is_column = bool(_NAME.fullmatch(word)) and word.lower() not in _SQL and not calls
        found.append((word, is_column))
    return found
