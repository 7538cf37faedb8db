"""Settings of the batch layer: the section `batch`, which config/settings.py finds by this file."""

from pydantic import Field

from config.section import Section


class BatchSettings(Section):
    """What the batch layer keeps."""

    keep_publications: int = Field(3, ge=1, description="runs that `batch publish` can go back to")


SECTION = BatchSettings
