"""The one error a user may see: what was wrong, and the command that mends it."""


class LakehouseError(Exception):
    """Report a mistake or a missing condition without a traceback; the command line exits with `exit_code`."""

    exit_code = 2

    def __init__(self, problem: str, hint: str = "") -> None:
        """Say what is wrong in `problem` and, in `hint`, what the user can do about it."""
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        """Join the problem and its hint, for logs and tests."""
        return f"{self.problem}\n{self.hint}" if self.hint else self.problem
