"""Quarantine: what was refused, why, and back in once that is mended."""
