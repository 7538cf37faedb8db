"""Data quality: the rules, and the checks built from them."""
