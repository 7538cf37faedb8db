"""Data quality: the rules of every table, and the checks built from them."""
