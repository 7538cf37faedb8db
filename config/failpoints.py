"""Named points between two durable steps at which a fault test kills the process."""

import os
import signal


def failpoint(name: str) -> None:
    """Kill this process, without clean-up, if LAKEHOUSE_FAILPOINT has this name."""
    if os.environ.get("LAKEHOUSE_FAILPOINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
