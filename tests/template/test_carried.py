"""What a project carries for GitHub, editors and Docker: checked as far as it can be without them."""

import json
import re
import shlex
import sys
from typing import Any

import pytest
import typer
import yaml

import lakehouse
from config.settings import ROOT, Settings
from tests.template.baking import run

pytestmark = pytest.mark.template


def parsed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((ROOT / name).read_text(), yaml.BaseLoader)  # so that `on` stays a text
    return found


def test_ci_tests_checks_style_and_types_and_builds_dbt() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    assert set(workflow) == {"name", "on", "permissions", "concurrency", "jobs"}
    assert set(workflow["on"]) == {"push", "pull_request"}
    said = []
    for job in workflow["jobs"].values():
        assert set(job) == {"runs-on", "timeout-minutes", "steps"}
        for step in job["steps"]:
            assert set(step) in ({"uses"}, {"uses", "with"}, {"run"}), step
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v1"))
            said += step.get("run", "").splitlines()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    app: Any = typer.main.get_command(lakehouse.build())
    for line in said:
        words = shlex.split(line)
        if words[0] == "make":
            assert words[1] in targets, line
        elif words[0] == "lakehouse":
            command = app.commands[words[1]]
            assert words[2] in getattr(command, "commands", words), line
    assert {"make lint", "make types", ".ci/run", "lakehouse dbt build"} <= set(said)


def test_the_python_and_java_of_ci_and_devcontainer_are_ones_that_do() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert container["image"].endswith(":3.12")
    assert [each["version"] for each in container["features"].values()] == ["17"]
    assert container["postCreateCommand"] == "make setup"
    variables = {name.removeprefix("LAKEHOUSE_").lower().split("__")[0] for name in container["containerEnv"]}
    assert variables <= set(Settings.model_fields)
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert set(re.findall(r'python-version: "(.+?)"', workflow)) == {"3.12"}
    assert set(re.findall(r'java-version: "(.+?)"', workflow)) == {"17"}


def test_pre_commit_takes_its_hooks() -> None:
    done = run(sys.executable, "-m", "pre_commit", "validate-config", ".pre-commit-config.yaml", folder=ROOT)
    assert done.returncode == 0, done.stdout


def test_compose_has_the_versions_that_the_project_is_built_on() -> None:
    services, ivy = parsed("compose.yaml")["services"], (ROOT / "config" / "ivy.xml").read_text()
    (kafka,) = re.findall(r'name="kafka_2\.13" rev="(.+?)"', ivy)
    (spark,) = re.findall(r'name="spark-sql-kafka-0-10_2\.13" rev="(.+?)"', ivy)
    images = {"kafka": f"apache/kafka:{kafka}", "spark-master": f"apache/spark:{spark}"}
    assert {name: service["image"] for name, service in services.items()} == images | {
        "spark-worker": images["spark-master"]
    }


def test_the_kafka_of_compose_behaves_as_the_embedded_one() -> None:
    environ = parsed("compose.yaml")["services"]["kafka"]["environment"]
    embedded = dict(re.findall(r"^([a-z.]+)=(.+)$", (ROOT / "config" / "broker.properties").read_text(), re.M))
    same = {name: value for name, value in embedded.items() if "{{" not in value}
    for variable, value in environ.items():
        name = variable.removeprefix("KAFKA_").lower().replace("_", ".")
        assert name in embedded, variable
        assert name not in same or same[name] == value, variable
    assert all("127.0.0.1" in address for address in environ["KAFKA_LISTENERS"].split(","))
