"""Failures: the jobs of a run that failed, each with its error. The other jobs keep running."""

from collections.abc import Callable

from config.errors import LakehouseError
from streaming.job import Job

OnFailure = Callable[[LakehouseError], None]


class Failures:
    """The jobs that failed, and those that were not started because they read what a failed job writes."""

    def __init__(self, on_failure: OnFailure | None) -> None:
        """Collect failures; `on_failure` is called with the error of each."""
        self._errors: dict[str, LakehouseError] = {}
        self._jobs: list[Job] = []
        self._on_failure = on_failure or (lambda _: None)

    def __contains__(self, job: Job) -> bool:
        """Return whether a job failed or was not started."""
        return job.name in self._errors

    def add(self, job: Job, error: LakehouseError) -> None:
        """Record the failure of a job."""
        self._errors[job.name] = error
        self._jobs.append(job)
        self._on_failure(error)

    def add_if_downstream(self, job: Job) -> bool:
        """Record a job as not started if it reads what a failed job writes; return whether it does."""
        for failed in self._jobs:
            tables = sorted(set(failed.writes) & set(job.reads))
            if tables:
                problem = f"'{job.name}' was not started: it reads {', '.join(tables)}, which '{failed.name}' writes."
                self.add(job, LakehouseError(problem, f"Fix '{failed.name}', then: lakehouse stream run {job.name}"))
                return True
        return False

    def raise_any(self) -> None:
        """Raise one error that names every job that failed, with the way out of each."""
        errors = list(self._errors.values())
        if len(errors) == 1:
            raise errors[0]
        if errors:
            each = "\n".join(str(error) for error in errors[:-1])
            raise LakehouseError(f"{len(errors)} jobs failed.\n{each}\n{errors[-1].problem}", errors[-1].hint)
