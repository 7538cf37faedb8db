"""Joiners: stream-stream joins of two event types within a time limit; one file per table."""

from lake.ordering import Order

FIRST_PLACED: Order = (("order_time", "ascending"), ("order_event_id", "ascending"))
"""Of an order that was placed several times, the first placing by event time counts."""
