"""What a JVM prints on stderr: remarks that do not concern the user are left out, everything else is shown."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NOT_SHOWN = (
    b"WARNING: Using incubator modules: ",  # Spark's launcher asks for this module itself
    b'Setting default log level to "',  # the levels are those of config/log4j2.properties
    b"To adjust logging level use sc.setLogLevel",
    b"SLF4J(W): Class path contains multiple SLF4J providers",
    b"SLF4J(W): Found provider ",
    b"SLF4J(W): See https://www.slf4j.org/codes.html",
    b"SLF4J(I): Actual provider is of type ",
)


@contextmanager
def filtered_stderr() -> Iterator[None]:
    """Let a JVM that is started inside write to stderr through a filter, for as long as it runs."""
    sys.stderr.flush()
    read, write = os.pipe()
    stderr = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_pass_on, args=(read, os.dup(stderr)), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(stderr, 2)  # now only the JVM holds the pipe: the filter ends with it
        os.close(stderr)


def _pass_on(source: int, target: int) -> None:
    with open(source, "rb") as lines, open(target, "wb", buffering=0) as shown:
        for line in lines:
            if not line.startswith(NOT_SHOWN):
                shown.write(line)
