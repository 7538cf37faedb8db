"""The batch layer of Lambda: silver and gold recomputed from the archive, checked, and published in one commit."""
