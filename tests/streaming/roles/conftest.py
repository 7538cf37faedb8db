"""A payment API of each test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from payments import serving

from config.settings import Settings
from local.payment_api.server import PaymentApi


@pytest.fixture
def api(tmp_path: Path, settings: Settings) -> Iterator[PaymentApi]:
    with serving(settings.at(tmp_path)) as api:
        yield api
