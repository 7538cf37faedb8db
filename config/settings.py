"""Settings: config/local.yaml and LAKEHOUSE_... variables -> one frozen, typed object."""

import difflib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, Field, SecretStr, ValidationError, create_model, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from config.discovery import provided
from config.errors import LakehouseError
from config.home import check_path
from config.section import Section

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "LAKEHOUSE_"
AnySection = TypeVar("AnySection", bound=Section)
# Variables that are not read by this object: by the fault tests, and by scripts that choose a home or file earlier.
NOT_SETTINGS = {"LAKEHOUSE_HOME", "LAKEHOUSE_CONFIG", "LAKEHOUSE_FAILPOINT"}


def _pattern(text: str) -> str:
    """Check that a text is a regular expression."""
    try:
        re.compile(text.encode())
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None
    return text


class KafkaSettings(Section):
    """The Kafka cluster; without `servers` the embedded broker is used."""

    servers: str | None = Field(None, description="host:port[,host:port] of an external Kafka; empty: the embedded one")
    port: int | None = Field(None, ge=1, le=65535, description="port of the embedded broker; empty: chosen once, kept")
    heap: str = Field("512m", pattern=r"^\d+[mg]$", description="heap of the embedded broker")
    max_record_bytes: int = Field(1_048_588, ge=1024, description="largest record that the embedded broker accepts")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: str | None = None
    password: SecretStr | None = Field(None, description="only from the environment or password_file")
    password_file: Path | None = None


class SparkSettings(Section):
    """The resources of one Spark session."""

    master: str = Field("local", description="local, or a cluster: spark://…, yarn, k8s://…")
    cores: int = Field(default_factory=lambda: os.cpu_count() or 2, ge=1)
    memory: str = Field(default_factory=lambda: _default_memory(), pattern=r"^\d+[mg]$")
    ui: bool = Field(True, description="the Spark UI, on loopback")


class StreamingSettings(Section):
    """How streaming jobs read, write and treat late or skewed data."""

    records_per_batch: int = Field(
        400_000, ge=1, description="most records of one micro-batch of landing (back-pressure)"
    )
    trigger_seconds: float = Field(0.0, ge=0, description="trigger interval of landing; 0: no pause")
    table_trigger_seconds: float = Field(
        10.0, ge=0, description="the same for jobs that read tables; a longer interval uses less CPU"
    )
    parallel_writes: int = Field(4, ge=1, description="tables of one micro-batch that are written in parallel")
    records_on_driver: int = Field(
        400_000,
        ge=0,
        description="largest micro-batch, in records, that the driver writes itself; Spark tasks write larger ones",
    )
    late: dict[str, Literal["leave", "count", "merge"]] = Field(
        default_factory=dict, description="by job: leave late rows out, count them, or merge them into their window"
    )
    salted: dict[str, Annotated[int, Field(ge=2, le=38)]] = Field(
        default_factory=dict, description="by job: number of salts, over which the events of one key are spread"
    )
    tries: int = Field(3, ge=1, description="failures of one micro-batch after which its job refuses to start")
    skew_minutes: int = Field(20, ge=0, description="arrival time by which one partition may be read ahead of another")
    dedup_horizon_minutes: int = Field(
        # Whole hours: the quality gate checks that an event id is unique in each hour of event time.
        60,
        ge=60,
        multiple_of=60,
        description="event time within which event ids are deduplicated, in whole hours",
    )


class CatalogSettings(Section):
    """The Hive metastore and Thrift server of SQL clients; without `metastore` the embedded catalog is used."""

    metastore: str | None = Field(None, pattern="^thrift://", description="thrift://host:port of a Hive metastore")
    port: int | None = Field(None, ge=1, le=65535, description="port of the embedded catalog; empty: chosen once, kept")
    thrift: str | None = Field(None, pattern=r"^[^:/]+:\d+$", description="host:port of a Spark Thrift server, for dbt")
    thrift_port: int | None = Field(None, ge=1, le=65535, description="port of the embedded one; empty: chosen, kept")


class ReactorSettings(Section):
    """How failed payments are retried."""

    api: str | None = Field(
        None, pattern="^https?://[^/]+$", description="address of the payment API; empty: this home's stand-in"
    )
    call_seconds: float = Field(5.0, gt=0, description="timeout of one call")
    parallel_calls: int = Field(4, ge=1, description="payments that are retried in parallel")
    tries: int = Field(6, ge=2, description="failed calls after which a payment is abandoned")
    first_wait_seconds: float = Field(0.2, gt=0, description="back-off after the first failure; it doubles each time")
    longest_wait_seconds: float = Field(10.0, gt=0, description="longest back-off")
    failures_to_open: int = Field(5, ge=1, description="consecutive failures that open the circuit breaker")
    open_seconds: float = Field(5.0, gt=0, description="pause of an open circuit breaker before the next health check")
    outage_seconds: float = Field(60.0, gt=0, description="outage after which `--until-caught-up` gives up")
    records_per_transaction: int = Field(100, ge=1, description="most records of one transaction")
    remembered_outcomes: int = Field(200_000, ge=1, description="outcomes kept in memory to recognize duplicates")


class PaymentApiSettings(Section):
    """The stand-in for the payment API."""

    port: int | None = Field(None, ge=1, le=65535, description="port on loopback; empty: chosen once, kept")
    accepted: float = Field(0.7, ge=0, le=1, description="share of retried payments that it accepts")


class RouterSettings(Section):
    """How raw clicks are routed, and which users count as bots."""

    records_per_transaction: int = Field(10_000, ge=1, description="most records of one transaction")
    bot_pages: int = Field(10, ge=2, description="page views of one user within bot_seconds that make it a bot")
    bot_seconds: float = Field(10.0, gt=0, description="window of event time in which page views are counted")
    bot_reach: int = Field(20_000, ge=1, description="offsets of a partition within which they are counted")
    headers: dict[str, Annotated[str, AfterValidator(_pattern)]] = Field(
        {"simulator_id": "[0-9a-f]{32}", "traceparent": "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"},
        description="record headers to keep, each with the pattern of its values; others may contain personal data",
    )
    session_seconds: float = Field(10.0, ge=6, description="session timeout: then others take over the partitions")
    transaction_seconds: float = Field(30.0, ge=1, description="timeout after which Kafka aborts an open transaction")


class Settings(BaseSettings):
    """All settings. Nested keys in the environment: LAKEHOUSE_SPARK__CORES=1."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=PREFIX, env_nested_delimiter="__", env_ignore_empty=True
    )

    home: Path = Field(ROOT / ".lakehouse", description="all runtime state")
    cache: Path = Field(
        default_factory=lambda: Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakehouse",
        description="jars, shared by checkouts and generated projects",
    )
    ivy_settings: Path | None = Field(None, description="an Ivy settings file, for a company mirror")
    maven_mirror: str | None = Field(None, description="address of a Maven mirror that replaces Maven Central")
    kafka: KafkaSettings = Field(default_factory=lambda: KafkaSettings())
    spark: SparkSettings = Field(default_factory=lambda: SparkSettings())
    streaming: StreamingSettings = Field(default_factory=lambda: StreamingSettings())
    router: RouterSettings = Field(default_factory=lambda: RouterSettings())
    catalog: CatalogSettings = Field(default_factory=lambda: CatalogSettings())
    reactor: ReactorSettings = Field(default_factory=lambda: ReactorSettings())
    payment_api: PaymentApiSettings = Field(default_factory=lambda: PaymentApiSettings())

    @field_validator("home", "cache")
    @classmethod
    def _absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment override the file, whose values `load_settings` passes as arguments."""
        return env_settings, init_settings

    @property
    def warehouse(self) -> str:
        """The address of the folder of all tables, for Spark; other code uses `lake.location.warehouse`."""
        return f"{self.home}/warehouse"

    def section(self, kind: type[AnySection]) -> AnySection:
        """Return the section of a package by its type: `settings.section(BatchSettings)`."""
        (found,) = (value for _, value in self if type(value) is kind)
        return found

    def at(self, home: Path) -> "Settings":
        """Return the same settings for another home."""
        return self.model_copy(update={"home": home})


if not TYPE_CHECKING:
    # A package with a file settings.py has a section of its own, under the name of the package.
    Settings = create_model(
        "Settings",
        __base__=Settings,
        __module__=__name__,
        **{each.__package__: (each.SECTION, Field(default_factory=each.SECTION)) for each in provided("settings")},
    )


def load_settings(file: Path | None = None) -> Settings:
    """Read the settings file and the environment, which overrides it; an error names key and file."""
    file = file or Path(os.environ.get("LAKEHOUSE_CONFIG") or ROOT / "config" / "local.yaml")
    values = _read(file)
    kafka = values.get("kafka")
    if isinstance(kafka, dict) and kafka.get("password") is not None:
        raise LakehouseError(
            f"{file} contains kafka.password: secrets do not belong in a settings file.",
            "Set LAKEHOUSE_KAFKA__PASSWORD, or name a file in kafka.password_file.",
        )
    _refuse_unknown_variables()
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise LakehouseError(_explain(error, file), f"Correct {file} or the LAKEHOUSE_ variables.") from None
    check_path(settings.home)
    return settings


RENAMED = {
    "ahead": "max_clock_ahead",
    "follows": "lateness_of",
    "says": "description",
    "streaming.archive_bytes_per_batch": "streaming.records_per_batch",
    "LAKEHOUSE_STREAMING__ARCHIVE_BYTES_PER_BATCH": "LAKEHOUSE_STREAMING__RECORDS_PER_BATCH",
    "streaming.follow_seconds": "streaming.table_trigger_seconds",
    "LAKEHOUSE_STREAMING__FOLLOW_SECONDS": "LAKEHOUSE_STREAMING__TABLE_TRIGGER_SECONDS",
}
"""Renamed keys of topics, tables, rules and settings: old name -> new name."""
RENAMED_OPTIONS = {
    "stream run --same-results": "--allow-code-change",
    "demo --act": "--part",
    "new job --by": "--key",
}
"""Renamed options of commands: command and old name -> new name."""


def nearest(name: str, allowed: list[str]) -> str:
    """Return the new name of a renamed key, or suggest the valid name nearest to a typo."""
    if RENAMED.get(name) in allowed:
        return f"it is now called '{RENAMED[name]}'"
    close = difflib.get_close_matches(name, allowed, n=1)
    return f"did you mean '{close[0]}'?" if close else f"allowed: {', '.join(sorted(allowed))}"


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise LakehouseError(f"There is no settings file {file}.", "Unset LAKEHOUSE_CONFIG, or create the file.")
    try:
        values = yaml.safe_load(file.read_text()) or {}
    except yaml.YAMLError as error:
        raise LakehouseError(f"{file} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise LakehouseError(f"{file} must contain keys and values, not a {type(values).__name__}.")
    return values


def _keys() -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, Section):
            keys |= {f"{name}.{key}": inner for key, inner in section.model_fields.items()}
        else:
            keys[name] = field
    return keys


def _refuse_unknown_variables() -> None:
    allowed = [PREFIX + key.upper().replace(".", "__") for key in _keys()]
    for name in os.environ:
        # A whole section as JSON (LAKEHOUSE_KAFKA='{…}') is refused too: there is one way to set a key.
        if name.upper().startswith(PREFIX) and name not in NOT_SETTINGS and name.upper() not in allowed:
            meant = nearest(name.upper(), allowed)
            raise LakehouseError(f"The environment sets {name}, which is not a setting: {meant}")


def _explain(error: ValidationError, file: Path) -> str:
    keys = _keys()
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        variable = PREFIX + key.upper().replace(".", "__")
        where = f"the environment ({variable})" if variable in os.environ else str(file)
        if problem["type"] == "extra_forbidden":
            lines.append(f"{where}: unknown key '{key}': {nearest(key, list(keys))}")
        else:
            what = re.sub(r"^Input should be", "it should be", problem["msg"])
            lines.append(f"{where}: {key} = {problem['input']!r}: {what}")
    return "\n".join(lines)


def _default_memory() -> str:
    """Return a quarter of the machine's memory, between 1 and 4 GiB: the broker and the user need some too."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(total // 4 // 2**20, 1024), 4096)}m"
