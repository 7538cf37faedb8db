"""A section of the settings: frozen, and an unknown key is an error."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A group of settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
