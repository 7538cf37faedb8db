"""A process with the catalog's Spark session, in which tests run dbt and queries one after the other.

dbt turns ANSI mode off in the Spark session of its process, so it cannot share that of the tests. A process for each
command would start Spark each time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from config.settings import ROOT, Settings

START = "from dbt_process import serve; serve()"


class DbtProcess:
    """One such process, for one home."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """Start the process; it connects to the catalog at its first request."""
        self.folder = settings.home / "tmp"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.output = settings.home / "logs" / "dbt process.log"
        self.output.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(self.output)],
            cwd=ROOT,
            env={**environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def dbt(self, *arguments: str) -> str:
        """Run a dbt command that must succeed; return what it printed."""
        before = self.output.stat().st_size if self.output.exists() else 0
        code = self._ask(dbt=["--no-use-colors", *arguments])
        with self.output.open("rb") as file:
            file.seek(before)
            printed = file.read().decode()
        assert code == 0, printed[-5000:]
        return printed

    def sql(self, query: str) -> pa.Table:
        """Run a query, or a statement, and return its rows."""
        file = self.folder / "rows.parquet"
        self._ask(sql={str(file): query})
        return pq.read_table(file)

    def tables(self, *names: str) -> dict[str, pa.Table]:
        """Read tables by their names in the catalog."""
        files = {name: self.folder / f"{name}.parquet" for name in names}
        self._ask(sql={str(file): f"select * from {name}" for name, file in files.items()})
        return {name: pq.read_table(file) for name, file in files.items()}

    def stop(self) -> None:
        """End the process."""
        self.process.communicate()

    def _ask(self, **request: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        assert reply, f"The process has ended: {self.output.read_text()[-5000:]}"
        found = json.loads(reply)
        assert "error" not in found, found["error"]
        return found["result"]


def serve() -> None:
    """Answer requests, a line each, until there are no more; everything that is printed goes into a file."""
    replies = os.fdopen(os.dup(1), "w")
    with Path(sys.argv[1]).open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    from config.settings import load_settings
    from lake.catalog import connect
    from operations.dbt.run import run

    settings = load_settings()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "dbt" in request:
                result = run(settings, request["dbt"])
            else:
                spark = connect(settings, "tests of dbt")
                for file, query in request["sql"].items():
                    pq.write_table(spark.sql(query).toArrow(), file)
                result = None
            sys.stdout.flush()
            reply: dict[str, Any] = {"result": result}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)
