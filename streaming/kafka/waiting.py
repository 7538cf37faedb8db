"""Waiting for Kafka, as the jobs and consumers do it; the simulator, a floor below, does the same."""

from config.waiting import answers, waiting_for_kafka

__all__ = ["answers", "waiting_for_kafka"]
