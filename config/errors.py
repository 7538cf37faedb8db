"""The one error a user may see: what was wrong, and the command that mends it."""


class LakehouseError(Exception):
    """Report a mistake or a missing condition without a traceback; the command line exits with `exit_code`."""

    exit_code = 2

    def __init__(self, problem: str, mend: str = "") -> None:
        """Say what is wrong in `problem` and, in `mend`, what the user can do about it."""
        super().__init__(problem)
        self.problem = problem
        self.mend = mend

    def __str__(self) -> str:
        """Join the problem and its mend, for logs and tests."""
        return f"{self.problem}\n{self.mend}" if self.mend else self.problem
