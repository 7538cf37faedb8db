"""Joiners: stream-stream joins of two event types within a time limit; one file per table."""
