"""Java: the usual folders are searched, other versions are skipped, and without one the error names a fix."""

from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.java import SHORT_RUN, SHORT_RUN_RECORDS, find_java, install, options_for

MODULES = "java.base java.sql jdk.incubator.vector"


def make_java(home: Path, version: str, modules: str = MODULES) -> Path:
    """Create the two files of a Java installation that are checked; the program itself does not run."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


def find(root: Path, **environ: str):
    return find_java(environ, root, root / "home" / "someone")


def test_java_home_comes_first(tmp_path: Path):
    make_java(tmp_path / "usr/lib/jvm/java-17", "17.0.15")
    chosen = make_java(tmp_path / "chosen here", "21.0.2")
    java = find(tmp_path, JAVA_HOME=str(chosen))
    assert (java.home, java.version, java.skipped) == (chosen, "21.0.2", ())
    assert java.command == chosen / "bin" / "java"


def test_java_home_of_another_version_is_skipped_and_noted(tmp_path: Path):
    newer = make_java(tmp_path / "newer", "25.0.3")
    fit = make_java(tmp_path / "usr/lib/jvm/java-17", "17.0.15")
    java = find(tmp_path, JAVA_HOME=str(newer))
    assert java.home == fit
    assert java.skipped == (f"JAVA_HOME: {newer}: it is Java 25.0.3, not 17 or 21",)


def test_java_home_that_is_no_java_is_noted(tmp_path: Path):
    make_java(tmp_path / "usr/lib/jvm/java-17", "17.0.15")
    java = find(tmp_path, JAVA_HOME=str(tmp_path / "gone"))
    assert java.skipped == (f"JAVA_HOME={tmp_path / 'gone'}: it has no bin/java",)


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path):
    home = make_java(tmp_path / "somewhere/jdk", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find(tmp_path, PATH=f"/nowhere:{tmp_path / 'bin'}").home == home


@pytest.mark.parametrize(
    "place",
    [
        "usr/lib/jvm/java-17-openjdk-amd64",
        "opt/java",
        "opt/java/openjdk",
        "Library/Java/JavaVirtualMachines/temurin-17.jdk/Contents/Home",
        "opt/homebrew/opt/openjdk@17",
        "home/someone/.sdkman/candidates/java/17.0.9-tem",
        "home/someone/.jdks/corretto-17",
    ],
)
def test_the_usual_places_are_searched(tmp_path: Path, place: str):
    home = make_java(tmp_path / place, "17.0.9")
    assert find(tmp_path).home == home


def test_a_newer_java_in_the_usual_places_is_not_chosen(tmp_path: Path):
    make_java(tmp_path / "usr/lib/jvm/a-temurin-25", "25.0.3")
    fit = make_java(tmp_path / "usr/lib/jvm/z-java-21", "21")
    assert find(tmp_path).home == fit


def test_a_java_without_release_file_is_asked_for_its_version_and_home(tmp_path: Path):
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    real = tmp_path / "real"
    shim.write_text(f"#!/bin/sh\necho '    java.home = {real}' >&2\necho '    java.version = 17.0.4' >&2\n")
    shim.chmod(0o755)
    java = find(tmp_path, PATH=str(shim.parent))
    assert (java.home, java.version) == (real, "17.0.4")


def test_a_trimmed_java_is_skipped(tmp_path: Path):
    make_java(tmp_path / "opt/java", "17.0.9", modules="java.base")
    with pytest.raises(LakehouseError, match=r"without the module jdk\.incubator\.vector"):
        find(tmp_path)


def test_without_any_the_message_has_the_commands(tmp_path: Path):
    make_java(tmp_path / "usr/lib/jvm/java-11", "11.0.2")
    with pytest.raises(LakehouseError) as raised:
        find(tmp_path)
    assert "Java 11.0.2" in raised.value.problem
    for command in ("apt-get install openjdk-17-jre-headless", "dnf install", "brew install openjdk@17", "make java"):
        assert command in raised.value.hint


class Shell:
    """Record commands; those that start or end with an entry of `failing` fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.commands: list[str] = []

    def __call__(self, command: list[str]) -> int:
        line = " ".join(command)
        self.commands.append(line)
        return int(any(line.startswith(bad) or line.endswith(bad) for bad in self.failing))


INSTALL_17 = "apt-get -qq install -y --no-install-recommends openjdk-17-jre-headless"


def test_root_updates_the_lists_then_installs():
    shell = Shell()
    install(shell, is_root=True, apt="apt-get")
    prefix = "env DEBIAN_FRONTEND=noninteractive "
    assert shell.commands[0] == prefix + "apt-get -qq update"
    assert shell.commands[-1] == prefix + INSTALL_17


def test_others_use_sudo_without_a_password():
    shell = Shell()
    install(shell, is_root=False, apt="apt-get")
    assert shell.commands[0] == "sudo -n true"
    assert shell.commands[-1] == "sudo -n env DEBIAN_FRONTEND=noninteractive " + INSTALL_17


def test_java_21_where_17_is_not_in_the_lists():
    shell = Shell("apt-cache -q=2 show openjdk-17-jre-headless")
    install(shell, is_root=True, apt="apt-get")
    assert shell.commands[-1].endswith("install -y --no-install-recommends openjdk-21-jre-headless")


@pytest.mark.parametrize(
    ("shell", "is_root", "apt", "problem"),
    [
        (Shell(), True, None, "only on Debian and Ubuntu"),
        (Shell("sudo -n true"), False, "apt-get", "needs root"),
        (Shell("openjdk-17-jre-headless", "openjdk-21-jre-headless"), True, "apt-get", "contain neither"),
        (Shell(INSTALL_17), True, "apt-get", "could not install openjdk-17-jre-headless"),
    ],
)
def test_where_it_cannot_install_it_says_why_and_how(shell: Shell, is_root: bool, apt: str | None, problem: str):
    with pytest.raises(LakehouseError, match=problem) as raised:
        install(shell, is_root=is_root, apt=apt)
    assert "brew install" in raised.value.hint


def test_few_records_start_java_with_one_compiler_and_many_with_both():
    few, many = SHORT_RUN_RECORDS - 1, SHORT_RUN_RECORDS
    assert options_for(few, "-Dgiven=1").split() == ["-Dgiven=1", *SHORT_RUN]
    assert options_for(many, "-Dgiven=1") == "-Dgiven=1"
    assert options_for(few, options_for(few, "")) == " ".join(SHORT_RUN)
