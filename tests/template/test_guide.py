"""The guide to one's own domain is followed step by step in a new project, as its owner would."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from config.settings import load_settings
from tests.template.baking import alone, outside

pytestmark = [pytest.mark.template, pytest.mark.slow]


def test_the_guide_leads_from_the_shop_to_events_of_ones_own(bake: Callable[..., Path], tmp_path: Path) -> None:
    project = bake("kappa", project_slug="meters")
    environ = outside() | alone(project)
    environ |= {
        "LAKEHOUSE_HOME": str(tmp_path / "home"),
        "LAKEHOUSE_CACHE": str(load_settings().cache),
        "LAKEHOUSE_SPARK__MEMORY": "2g",
        "LAKEHOUSE_SPARK__UI": "false",
    }

    def done(script: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", script]
        ended = subprocess.run(command, cwd=project, env=environ, text=True, capture_output=True, check=False)
        assert ended.returncode == 0, f"{script}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}"
        return ended.stdout

    guide = (project / "docs" / "guides" / "your-own-domain.md").read_text()
    steps = re.findall(r"^```sh\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", guide, re.M | re.S)
    assert len(steps) == 7
    try:
        for script, shown in steps:
            said = " ".join(done(script).split())
            for line in shown.splitlines():
                assert " ".join(line.split()) in said, f"{line}\n{said}"
    finally:
        done("lakehouse down")
