"""What a JVM prints: known remarks are not shown, errors are."""

import subprocess
import sys

SCRIPT = """
import os, subprocess, sys
from config.jvm_output import filtered_stderr

with filtered_stderr():
    jvm = subprocess.Popen([sys.executable, "-c", '''
import sys
sys.stdin.read()
print("WARNING: Using incubator modules: jdk.incubator.vector", file=sys.stderr)
print("java.lang.OutOfMemoryError: Java heap space", file=sys.stderr)
'''], stdin=subprocess.PIPE)
print("ours", file=sys.stderr, flush=True)
jvm.communicate()
import threading
for thread in threading.enumerate():
    if thread.daemon:
        thread.join()
"""


def test_a_remark_is_not_shown_but_an_error_is_also_after_the_start() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["ours", "java.lang.OutOfMemoryError: Java heap space"]
