"""Filter/router: clicks_raw -> clicks, dead_letter."""
