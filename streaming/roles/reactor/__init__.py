"""Reactor: payment_failed -> the retry-payment API -> payment_retries, dead_letter."""
