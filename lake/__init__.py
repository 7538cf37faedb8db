"""The lake: Delta tables and what they record; the only code that opens, appends to or merges a table."""
