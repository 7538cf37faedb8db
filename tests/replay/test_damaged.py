"""A replay's files: a damaged one is named, with the way out."""

import pytest

from config.files import DamagedFileError
from config.settings import Settings
from replay import certificate, manifest


@pytest.mark.parametrize("content", ["", "{", '{"generation": 2, "sta'])
def test_a_manifest_or_certificate_that_is_cut_off_is_named(fresh_home: Settings, content: str) -> None:
    folder = fresh_home.home / "replays" / "g2"
    folder.mkdir(parents=True)
    (folder / "certificate.json").write_text(content)
    with pytest.raises(DamagedFileError, match="certificate") as error:
        certificate.load(fresh_home, 2)
    assert error.value.hint == "lakehouse replay verify 2"
    (folder / "manifest.json").write_text(content)
    with pytest.raises(DamagedFileError, match="manifest") as error:
        manifest.replays(fresh_home)
    assert f"rm -r '{folder}'" in error.value.hint
