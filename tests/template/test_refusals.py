"""Invalid answers are reported, and no files are written."""

from pathlib import Path

import pytest
from cookiecutter.exceptions import FailedHookException
from cookiecutter.main import cookiecutter

from config.settings import ROOT
from tests.template.baking import NAMED, run

pytestmark = pytest.mark.template


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"project_name": "   ", "project_slug": "fine"}, "project_name is blank"),
        ({"project_name": 'Ann"s', "project_slug": "fine"}, "project_name 'Ann\"s': start with a letter or digit"),
        ({"project_name": "Ann's", "project_slug": "fine"}, 'project_name "Ann\'s": start with'),
        ({"project_name": "Straße", "project_slug": "fine"}, "project_name 'Straße': start with"),
        ({"project_slug": "My Lakehouse"}, "project_slug 'My Lakehouse' is not a package name"),
        ({"project_slug": "2fast"}, "project_slug '2fast' is not a package name"),
        ({"project_slug": "../outside"}, "project_slug '../outside' is not a package name"),
        ({"project_slug": "snake_case"}, "project_slug 'snake_case' is not a package name"),
        ({"project_slug": "pyspark"}, "it depends on a package named 'pyspark'"),
        ({"description": " "}, "description: describe the project in one line"),
        ({"description": "two\nlines"}, "description: describe the project in one line"),
        ({"architecture": "delta"}, "delta provided for choice variable architecture"),
    ],
)
def test_a_bad_answer_is_named_and_leaves_nothing(
    tmp_path: Path, answers: dict[str, str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with pytest.raises((FailedHookException, ValueError)) as error:
        cookiecutter(
            str(ROOT), no_input=True, extra_context=NAMED | answers, output_dir=str(folder), default_config=True
        )
    assert message in str(error.value) + "".join(capfd.readouterr())
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert list(folder.iterdir()) == []


def test_an_existing_folder_is_named_and_stays_as_it_is(tmp_path: Path) -> None:
    mine = tmp_path / "my-lakehouse" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = run("cookiecutter", str(ROOT), "--no-input", folder=tmp_path)
    assert done.returncode != 0
    assert "my-lakehouse" in done.stdout + done.stderr
    assert "already exists" in done.stdout + done.stderr
    assert [path.name for path in mine.parent.iterdir()] == ["mine.txt"]
