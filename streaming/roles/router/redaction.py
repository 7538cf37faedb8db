"""Redaction: what may be known of a visitor -> browser family, device and network, no more."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

# In this order: Edge and Opera also say Chrome, and all but Firefox also say Safari.
_FAMILIES = (
    ("Edge", ("Edg/", "EdgA/", "EdgiOS/")),
    ("Opera", ("OPR/", "Opera")),
    ("Firefox", ("Firefox/", "FxiOS/")),
    ("Chrome", ("Chrome/", "CriOS/")),
    ("Safari", ("Safari/",)),
)
_MOBILE = ("Mobile", "Android", "iPhone", "iPad")
# The Cubot is a telephone.
_BOT = re.compile(
    r"(?<!cu)bot|crawl|spider|slurp|headless|phantomjs|scrapy|curl/|wget/|python|java/|go-http|libwww|httpclient|okhttp",
    re.IGNORECASE,
)
# Longer ones say nothing more, and what is remembered has to have a bound.
_LONGEST_AGENT = 512
_LONGEST_ADDRESS = 64


def browser(user_agent: object) -> str | None:
    """Reduce what a browser says of itself to family and device; of a bot that says so, there is none."""
    return _browser(user_agent[:_LONGEST_AGENT]) if isinstance(user_agent, str) else "other/desktop"


def network(ip: object) -> str | None:
    """Cut an address down to its network, /24 or /48; what is no address has none."""
    return _network(ip) if isinstance(ip, str) and len(ip) <= _LONGEST_ADDRESS else None


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
        if address.ipv4_mapped is None:
            return str(IPv6Address(int(address) >> 80 << 80))
        address = address.ipv4_mapped
    return str(IPv4Address(int(address) >> 8 << 8))
