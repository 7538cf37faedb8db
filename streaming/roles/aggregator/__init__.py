"""Aggregators: events -> windows of event time, one file per table."""
