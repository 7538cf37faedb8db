"""Git: the commit that contains a file of this project, and a file as it was at a commit."""

import re
import subprocess

from config.settings import ROOT

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def commit_with(path: str) -> str | None:
    """Return the current commit if it has a file exactly as it is on disk; None without git, or if it was changed.

    path: relative to the project, which may be a folder of a larger repository.
    """
    head = (_git("rev-parse", "HEAD") or b"").decode().strip()
    return head if head and _git("cat-file", "blob", f"{head}:./{path}") == (ROOT / path).read_bytes() else None


def file_at(commit: str, path: str) -> str | None:
    """Return a file of this project as it was at a commit in the history of what is checked out, or None.

    Other commits are left alone, though git may know them: nobody has merged what was merely fetched.
    """
    if not COMMIT.fullmatch(commit) or _git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        return None
    content = _git("cat-file", "blob", f"{commit}:./{path}")
    return None if content is None else content.decode()


def commits_of(*paths: str) -> list[str]:
    """List the commits in the history of what is checked out that changed some files of this project, latest first."""
    return (_git("log", "--format=%H", "--", *paths) or b"").decode().split()


def _git(*arguments: str) -> bytes | None:
    """Run git in the project; return its output, or None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
