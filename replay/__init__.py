"""Replay, Kappa's way to correct history: rebuild it with the same jobs, prove it, switch to it."""
