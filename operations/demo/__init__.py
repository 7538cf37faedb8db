"""The demo: the whole story in one command."""
