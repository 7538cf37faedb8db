"""Redaction: user agent and IP address -> browser family, device and network only."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

# The order matters: Edge and Opera also contain "Chrome", and all but Firefox contain "Safari".
_FAMILIES = (
    ("Edge", ("Edg/", "EdgA/", "EdgiOS/")),
    ("Opera", ("OPR/", "Opera")),
    ("Firefox", ("Firefox/", "FxiOS/")),
    ("Chrome", ("Chrome/", "CriOS/")),
    ("Safari", ("Safari/",)),
)
_MOBILE = ("Mobile", "Android", "iPhone", "iPad")
# Cubot is a brand of phones.
_BOT = re.compile(
    r"(?<!cu)bot|crawl|spider|slurp|headless|phantomjs|scrapy|curl/|wget/|python|java/|go-http|libwww|httpclient|okhttp",
    re.IGNORECASE,
)
_NAT64 = IPv6Network("64:ff9b::/96")
# A bound, as both values are cached; longer user agents add no information.
_MAX_AGENT_LENGTH = 512
_MAX_ADDRESS_LENGTH = 64


def browser(user_agent: object) -> str | None:
    """Reduce a user agent to browser family and device; return None for a bot that identifies itself."""
    return _browser(user_agent[:_MAX_AGENT_LENGTH]) if isinstance(user_agent, str) else "other/desktop"


def network(ip: object) -> str | None:
    """Reduce an IP address to its network, /24 or /48; return None if it is not an address."""
    return _network(ip) if isinstance(ip, str) and len(ip) <= _MAX_ADDRESS_LENGTH else None


@lru_cache(8192)
def _browser(user_agent: str) -> str | None:
    if _BOT.search(user_agent):
        return None
    family = next((name for name, marks in _FAMILIES if any(mark in user_agent for mark in marks)), "other")
    return f"{family}/{'mobile' if any(mark in user_agent for mark in _MOBILE) else 'desktop'}"


@lru_cache(65536)
def _network(ip: str) -> str | None:
    try:
        address = ip_address(ip)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        inner = _ipv4_inside(address)
        if inner is None:
            return str(IPv6Address(int(address) >> 80 << 80))
        address = inner
    return str(IPv4Address(int(address) >> 8 << 8))


def _ipv4_inside(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address contains: 6to4 has all of it within the first 48 bits."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour
