"""Refuse answers from which no project can be made, before anything of it is written."""

import json
import re
import sys

ANSWERS = json.loads(r"""{{ cookiecutter | tojson }}""")
PLAIN = r"[A-Za-z0-9][A-Za-z0-9 .,:()&+-]*"
PACKAGE = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
SHORT = 100


def problems() -> list[str]:
    """Say what is wrong with each answer."""
    name, slug, description = (ANSWERS[key] for key in ("project_name", "project_slug", "description"))
    found = []
    if not name.strip():
        found.append("project_name is blank: give the project a name.")
    elif not re.fullmatch(PLAIN, name) or len(name) > SHORT:
        found.append(
            f"project_name {name!r}: begin with a letter or digit; ASCII letters, digits, blanks and .,:()&+- only."
        )
    if not re.fullmatch(PACKAGE, slug) or len(slug) > SHORT:
        found.append(
            f"project_slug {slug!r} is no package name: small letters, digits and single hyphens, a letter first."
        )
    if not description.strip() or not description.isprintable():
        found.append("description: say in one line what the project is.")
    return found


if __name__ == "__main__" and problems():
    print("No project was made:", *problems(), sep="\n  ", file=sys.stderr)
    sys.exit(1)
