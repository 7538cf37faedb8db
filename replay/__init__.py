"""Replay, the heart of Kappa: history made anew by the same jobs, beside what is served, proved, then switched to."""
