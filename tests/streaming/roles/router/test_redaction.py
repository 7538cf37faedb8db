"""Redaction: nothing of a visitor is kept but browser family, device and network."""

import pytest

from local.simulator.people import AGENTS
from streaming.roles.router.redaction import browser, network


@pytest.mark.parametrize(
    ("ip", "kept"),
    [
        ("198.51.100.77", "198.51.100.0"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ("::ffff:198.51.100.77", "198.51.100.0"),
        ("2002:c633:644d::1", "198.51.100.0"),  # 6to4
        ("2002:c633:644d:1:2:3:4:5", "198.51.100.0"),
        ("64:ff9b::198.51.100.77", "198.51.100.0"),  # NAT64
        ("64:ff9b::c633:644d", "198.51.100.0"),
        ("::ffff:198.51.100.77%eth0", "198.51.100.0"),
        ("fe80::1%eth0", "fe80::"),
    ],
)
def test_an_address_is_cut_to_its_network(ip: str, kept: str):
    assert network(ip) == kept


@pytest.mark.parametrize("ip", ["ada@example.com", "", "1.2.3", "1.2.3.4.5", "9" * 1000, 3405803853, None, {}])
def test_what_is_no_address_has_no_network(ip: object):
    assert network(ip) is None


@pytest.mark.parametrize(("said", "kept"), AGENTS.items())
def test_a_browser_is_reduced_to_family_and_device(said: str, kept: str):
    assert browser(said) == kept


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/131.0 Safari/537.36 Edg/131.0", "Edge/desktop"),
        ("Mozilla/5.0 (Linux; Android 13; CUBOT P80) AppleWebKit/537.36 Chrome/120.0 Mobile", "Chrome/mobile"),
        ("Ada's own browser, ada@example.com", "other/desktop"),
        ("", "other/desktop"),
        ({"is": "wrong"}, "other/desktop"),
    ],
)
def test_other_browsers_and_no_browsers(said: object, kept: str):
    assert browser(said) == kept
