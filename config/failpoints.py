"""Named places where a fault test kills the process, between two durable steps."""

import os
import signal


def failpoint(name: str) -> None:
    """Die here, without any clean-up, if LAKEHOUSE_FAILPOINT names this place."""
    if os.environ.get("LAKEHOUSE_FAILPOINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
