"""Settings: every mistake is explained, the environment wins, and secrets stay secret."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from config.errors import LakehouseError
from config.settings import load_settings

SECRET = "hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "local.yaml"


def refused(file: Path, text: str = "{}") -> str:
    """Load invalid settings and return the error message."""
    file.write_text(text)
    with pytest.raises(LakehouseError) as error:
        load_settings(file)
    return str(error.value)


def test_an_empty_file_gives_the_defaults(file: Path) -> None:
    file.write_text("")
    settings = load_settings(file)
    assert settings.kafka.servers is None
    assert settings.spark.cores >= 1
    assert settings.warehouse == str(settings.home / "warehouse")


def test_the_file_is_read(file: Path) -> None:
    file.write_text("spark: {cores: 3}\nkafka: {servers: 'a:9092,b:9092'}\n")
    settings = load_settings(file)
    assert (settings.spark.cores, settings.kafka.servers) == (3, "a:9092,b:9092")


def test_the_environment_wins_over_the_file_key_by_key(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("spark: {cores: 3, memory: 3g}\n")
    monkeypatch.setenv("LAKEHOUSE_SPARK__CORES", "5")
    settings = load_settings(file)
    assert (settings.spark.cores, settings.spark.memory) == (5, "3g")


def test_a_relative_home_becomes_absolute(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_HOME", "here")
    assert load_settings(file).home == tmp_path / "here"


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ("sparc: {cores: 1}", "sparc", "spark"),
        ("spark: {core: 1}", "spark.core", "spark.cores"),
        ("kafka: {server: 'a:9092'}", "kafka.server", "kafka.servers"),
        ("streaming: {record_per_batch: 1}", "streaming.record_per_batch", "streaming.records_per_batch"),
        ("hom: /tmp", "hom", "home"),
    ],
)
def test_an_unknown_key_names_itself_the_file_and_the_nearest(file: Path, text: str, key: str, meant: str) -> None:
    message = refused(file, text)
    assert str(file) in message
    assert f"'{key}'" in message
    assert f"did you mean '{meant}" in message


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LAKEHOUSE_SPARK__CORE", "LAKEHOUSE_SPARK__CORES"),
        ("LAKEHOUSE_SPARK_CORES", "LAKEHOUSE_SPARK__CORES"),
        ("LAKEHOUSE_HOUSE", "LAKEHOUSE_HOME"),
    ],
)
def test_an_unknown_variable_names_itself_and_the_nearest(
    file: Path, monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, "1")
    message = refused(file)
    assert f"sets {variable}," in message
    assert f"did you mean '{meant}'" in message


@pytest.mark.parametrize("case", [str.upper, str.lower])
def test_a_renamed_variable_gives_its_new_name_in_either_case(
    file: Path, monkeypatch: pytest.MonkeyPatch, case: Callable[[str], str]
) -> None:
    variable = case("LAKEHOUSE_STREAMING__FOLLOW_SECONDS")
    monkeypatch.setenv(variable, "1")
    message = refused(file)
    assert f"sets {variable}," in message
    assert "it is now called 'LAKEHOUSE_STREAMING__TABLE_TRIGGER_SECONDS'" in message


@pytest.mark.parametrize(
    ("text", "key", "allowed"),
    [
        ("spark: {cores: 0}", "spark.cores = 0", "greater than or equal to 1"),
        ("spark: {cores: many}", "spark.cores = 'many'", "valid integer"),
        ("spark: {memory: 2 gigs}", "spark.memory = '2 gigs'", r"^\d+[mg]$"),
        ("kafka: {port: 70000}", "kafka.port = 70000", "less than or equal to 65535"),
        ("kafka: {security_protocol: TLS}", "kafka.security_protocol = 'TLS'", "'SASL_SSL'"),
        ("kafka: elsewhere", "kafka = 'elsewhere'", "KafkaSettings"),
        ("spark: [1]", "spark = [1]", "SparkSettings"),
    ],
)
def test_an_impossible_value_names_key_file_and_what_is_allowed(file: Path, text: str, key: str, allowed: str) -> None:
    message = refused(file, text)
    assert str(file) in message
    assert key in message
    assert allowed in message


def test_an_impossible_value_in_the_environment_names_its_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK__CORES", "0")
    message = refused(file)
    assert "LAKEHOUSE_SPARK__CORES" in message.splitlines()[0]
    assert "greater than or equal to 1" in message


def test_two_mistakes_are_reported_at_once(file: Path) -> None:
    message = refused(file, "spark: {cores: 0}\nkafka: {port: 0}")
    assert "spark.cores" in message
    assert "kafka.port" in message


@pytest.mark.parametrize("text", ["a: b: c", "- a\n- b", "word"])
def test_a_file_that_holds_no_settings_is_named(file: Path, text: str) -> None:
    assert str(file) in refused(file, text)


def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_CONFIG", str(tmp_path / "nowhere.yaml"))
    with pytest.raises(LakehouseError, match=r"nowhere\.yaml") as error:
        load_settings()
    assert "LAKEHOUSE_CONFIG" in error.value.hint


@pytest.mark.parametrize("text", [f"kafka: {{password: {SECRET}}}", f"kafka: {{pasword: {SECRET}}}"])
def test_a_password_in_the_file_is_refused_and_not_repeated(file: Path, text: str) -> None:
    message = refused(file, text)
    assert str(file) in message
    assert SECRET not in message


def test_a_password_from_the_environment_is_never_printed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__PASSWORD", SECRET)
    file.write_text("{}")
    settings = load_settings(file)
    assert settings.kafka.password is not None
    assert settings.kafka.password.get_secret_value() == SECRET
    assert SECRET not in f"{settings!r} {settings} {settings.kafka!r} {settings.model_dump()}"
    assert SECRET not in settings.model_dump_json()


@pytest.mark.parametrize("text", ["spark: {cores: 0}", "kafka: {port: 0}", "kafka: {pasword: a}"])
def test_a_mistake_elsewhere_does_not_print_the_password(
    file: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__PASSWORD", SECRET)
    assert SECRET not in refused(file, text)


@pytest.mark.parametrize("value", [f'{{"password": "{SECRET}"}}', f'["{SECRET}"]', SECRET])
def test_a_whole_section_in_the_environment_is_refused_and_not_repeated(
    file: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA", value)
    message = refused(file)
    assert "sets LAKEHOUSE_KAFKA," in message
    assert "LAKEHOUSE_KAFKA__" in message
    assert SECRET not in message


def test_settings_are_frozen(file: Path) -> None:
    file.write_text("{}")
    settings = load_settings(file)
    with pytest.raises(ValidationError, match="frozen"):
        settings.home = Path("/elsewhere")  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        settings.spark.cores = 64  # type: ignore[misc]
