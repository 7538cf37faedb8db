"""Hide this project, which the environment has installed, from a project that runs in the same environment."""

import sys
from pathlib import Path

sys.path[:] = [
    each for each in sys.path if Path(each).resolve() == Path.cwd() or not Path(each, "lakehouse.py").exists()
]
