"""Batch layer, Lambda's way to correct history: recompute silver and gold from the archive, check, publish."""
