"""Finish a new project: remove features that were not chosen and files of the origin, rename it, start its history."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path.cwd()))

from config.features import of_feature  # noqa: E402

ANSWERS = json.loads(r"""{{ cookiecutter | tojson }}""")
LEFT_OUT = {"both": [], "kappa": ["batch", "comparison"], "lambda": ["replay", "comparison"]}
CACHES = {"__pycache__", ".ruff_cache", ".mypy_cache", ".pytest_cache", ".hypothesis"}
ROOT = Path.cwd()

# The start and end of a mark: a comment of Python, YAML, SQL, Markdown or Jinja (which also reads this file).
OPEN, SHUT = r"(?:#|--|<!--|[{]#-?)[ ]", r"(?:[ ](?:-->|-?#[}]))?"
BLOCK = re.compile(rf"^[ ]*{OPEN}feature: (\w+){SHUT}\n(.*?)^[ ]*{OPEN}end of feature: \1{SHUT}\n", re.M | re.S)
PIECE = re.compile(r"<!-- feature: (\w+) -->(.*?)<!-- end of feature: \1 -->")
LINE = re.compile(rf"^(.*?\S)[ ]+{OPEN}feature: (\w+){SHUT}((?: \|)?)\n", re.M)
OTHERWISE = re.compile(rf"^([ ]*)(.*?\S)[ ]+{OPEN}without feature (\w+): (.*?){SHUT}\n", re.M)
INSTEAD = re.compile(r"^<!-- without feature (\w+):\n(.*?)^-->\n", re.M | re.S)


def leave_out(chosen: list[str]) -> None:
    """Remove the files of features, their marked passages in other files, and all marks."""
    files = [file.relative_to(ROOT).as_posix() for file in ROOT.rglob("*") if file.is_file()]
    for feature in chosen:
        for file in of_feature(feature, files, ROOT):
            (ROOT / file).unlink(missing_ok=True)  # a file may belong to several features
    for file in files:
        if (ROOT / file).exists() and b" feature" in (ROOT / file).read_bytes():
            (ROOT / file).write_text(unmarked((ROOT / file).read_text(), chosen))
    for folder in sorted((each for each in ROOT.rglob("*") if each.is_dir()), reverse=True):
        if folder.name in CACHES:
            shutil.rmtree(folder)
        elif not any(folder.iterdir()):
            folder.rmdir()


def unmarked(text: str, left_out: list[str]) -> str:
    """Remove the marks from a text, and the marked passages of features that are left out."""
    while BLOCK.search(text):  # marks can be nested
        text = BLOCK.sub(lambda found: "" if found[1] in left_out else found[2], text)
    text = PIECE.sub(lambda found: "" if found[1] in left_out else found[2], text)
    text = LINE.sub(lambda found: "" if found[2] in left_out else f"{found[1]}{found[3]}\n", text)
    text = OTHERWISE.sub(lambda found: f"{found[1]}{found[4] if found[3] in left_out else found[2]}\n", text)
    text = INSTEAD.sub(lambda found: found[2] if found[1] in left_out else "", text)
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip("\n") + "\n"  # drop the extra blank lines around a removed passage


def rename() -> None:
    """Replace the name and the description of the origin by the answers."""
    pyproject, readme, lock = (ROOT / name for name in ("pyproject.toml", "README.md", "requirements.lock"))
    slug, description = ANSWERS["project_slug"], ANSWERS["description"]
    if f"\n{slug}==" in lock.read_text():
        sys.exit(f"No project was made: it depends on a package named {slug!r}. Choose another slug.")
    text = pyproject.read_text()
    origin, old_description = (
        json.loads(re.findall(rf'^{key} = (".*")$', text, re.M)[0]) for key in ("name", "description")
    )
    for key, value in {"name": slug, "version": "0.1.0", "description": description}.items():
        head, _, tail = re.split(rf'^({key} = ".*")$', text, maxsplit=1, flags=re.M)
        text = f"{head}{key} = {json.dumps(value, ensure_ascii=False)}{tail}"
    pyproject.write_text(text)
    lock.write_text(lock.read_text().replace(f"{origin} (pyproject.toml)", f"{slug} (pyproject.toml)"))
    _, _, rest = readme.read_text().partition("\n")
    # A mark in the README's tree of folders would be visible, so remove the lines of folders that do not exist.
    rest = re.sub(r"^(\w+/) {2,}.*\n", lambda line: line[0] if Path(line[1]).is_dir() else "", rest, flags=re.M)
    readme.write_text(f"# {ANSWERS['project_name']}\n{rest.replace(old_description, description, 1)}")


def start_history() -> None:
    """Commit the new project if git is installed."""
    if not shutil.which("git"):
        print("git is not installed: the project has no history yet.")
        return

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, env=environ).stdout

    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    email = subprocess.run(["git", "config", "user.email"], capture_output=True, check=False, env=environ).stdout
    if not email:  # a commit needs an author
        slug = ANSWERS["project_slug"]
        environ |= {f"GIT_{role}_NAME": slug for role in ("AUTHOR", "COMMITTER")}
        environ |= {f"GIT_{role}_EMAIL": f"{slug}@localhost" for role in ("AUTHOR", "COMMITTER")}
    git("init", "--quiet")
    git("symbolic-ref", "HEAD", "refs/heads/main")
    git("add", "--all")
    git("-c", "commit.gpgsign=false", "commit", "--quiet", "--no-verify", "--message", "Start from the template")


if __name__ == "__main__":
    # In the template these links have other names: git and ruff would read them as files of a nested project.
    Path("gitignore").rename(".gitignore")
    Path("project.toml").rename("pyproject.toml")
    leave_out(["origin", *LEFT_OUT[ANSWERS["architecture"]]])
    rename()
    start_history()
    print(
        f"Made {ANSWERS['project_slug']} ({ANSWERS['architecture']}). Next: cd {ANSWERS['project_slug']} && make demo"
    )
