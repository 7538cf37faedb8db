"""The demo: the whole story in one command."""

from operations.demo.story import demo_home, run

__all__ = ["demo_home", "run"]
