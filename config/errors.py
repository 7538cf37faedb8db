"""The only error class that users see: what is wrong, and the command that fixes it."""


class LakehouseError(Exception):
    """A user's mistake or an unmet precondition: shown without a traceback; the command exits with `exit_code`."""

    exit_code = 2

    def __init__(self, problem: str, hint: str = "") -> None:
        """Store what is wrong (`problem`) and what the user can do about it (`hint`)."""
        super().__init__(problem)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        """Join the problem and its hint, for logs and tests."""
        return f"{self.problem}\n{self.hint}" if self.hint else self.problem
