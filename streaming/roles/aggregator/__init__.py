"""Aggregators: events -> windows of event time, one file per table."""

# That an event e lies in the window of a row r.
DURING = "r.window_start <= e.event_time and e.event_time < r.window_end"
