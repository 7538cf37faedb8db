"""Files in the home: a process killed while it writes a file leaves the previous content."""

from pathlib import Path

import pytest

from config.files import write_whole


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a folder" / "manifest.json"
    write_whole(file, "old")
    assert file.read_text() == "old"

    def die_half_way(path: Path, content: bytes) -> int:
        with path.open("wb") as half:
            half.write(content[: len(content) // 2])
        raise OSError("killed")

    monkeypatch.setattr(Path, "write_bytes", die_half_way)
    with pytest.raises(OSError, match="killed"):
        write_whole(file, "new and longer")
    assert file.read_text() == "old"
