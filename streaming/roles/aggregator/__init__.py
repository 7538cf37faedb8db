"""Aggregators: events -> windows by event time; one file per table."""

# SQL condition: event e lies in the window of row r.
DURING = "r.window_start <= e.event_time and e.event_time < r.window_end"
