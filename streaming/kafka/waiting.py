"""Waiting for Kafka, as jobs and consumers do; the simulator, on a lower floor, does the same."""

from config.waiting import answers, waiting_for_kafka

__all__ = ["answers", "waiting_for_kafka"]
