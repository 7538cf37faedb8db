"""Joiners: two kinds of events that belong together within a time, one file per table."""
