"""Reject invalid answers before any file is written."""

import json
import re
import sys

ANSWERS = json.loads(r"""{{ cookiecutter | tojson }}""")
PLAIN = r"[A-Za-z0-9][A-Za-z0-9 .,:()&+-]*"
PACKAGE = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
SHORT = 100


def problems() -> list[str]:
    """Return a message for each invalid answer."""
    name, slug, description = (ANSWERS[key] for key in ("project_name", "project_slug", "description"))
    found = []
    if not name.strip():
        found.append("project_name is blank: enter a name.")
    elif not re.fullmatch(PLAIN, name) or len(name) > SHORT:
        found.append(
            f"project_name {name!r}: start with a letter or digit; use only ASCII letters, digits, spaces and .,:()&+-."
        )
    if not re.fullmatch(PACKAGE, slug) or len(slug) > SHORT:
        found.append(
            f"project_slug {slug!r} is not a package name: a lowercase letter, then letters, digits and single hyphens."
        )
    if not description.strip() or not description.isprintable():
        found.append("description: describe the project in one line.")
    return found


if __name__ == "__main__" and problems():
    print("No project was made:", *problems(), sep="\n  ", file=sys.stderr)
    sys.exit(1)
