"""Open a Jupyter notebook with a Spark session and every table, on loopback; Jupyter must be installed."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from config.errors import LakehouseError
from config.settings import ROOT, Settings

CELLS = (
    """from config.settings import load_settings
from lake.catalog import connect

settings = load_settings()
spark = connect(settings, "notebook")""",
    'spark.table("serving.parity").toPandas()',
)


def open_notebook(settings: Settings) -> int:
    """Serve the home's notebooks until Ctrl-C; return Jupyter's exit code."""
    if not importlib.util.find_spec("notebook"):
        raise LakehouseError("Jupyter is not installed.", f"{sys.executable} -m pip install notebook")
    file = write_first(settings)
    command = [sys.executable, "-m", "notebook", str(file), "--ServerApp.ip=127.0.0.1"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def write_first(settings: Settings) -> Path:
    """Write a first notebook unless it exists; return its file."""
    file = settings.home / "notebooks" / "lakehouse.ipynb"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        cells = [
            {"cell_type": "code", "id": f"cell-{number}", "source": source, "metadata": {}, "outputs": []}
            | {"execution_count": None}
            for number, source in enumerate(CELLS, start=1)
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        file.write_text(json.dumps(notebook, indent=1))
    return file
