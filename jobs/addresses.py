"""Where a request comes from, when proxies of ours stand in between.

`X-Forwarded-For` is what a client says, and each proxy adds at the end whom it was asked by. So the
list is read from its end, and only as far as the words come from proxies that the settings name:
the first address that is none of them is the client's, whatever stands before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

UNIX = "unix"
"""The name in the settings for a proxy that comes through a socket file."""
SIXTY_FOUR = 64
"""The bits of an IPv6 address that one customer has; the rest is theirs to choose."""


@dataclass(frozen=True, slots=True)
class Proxies:
    """The proxies whose word about the client counts."""

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    over_sockets: bool = False

    def have(self, address: str) -> bool:
        if not address:
            return self.over_sockets
        place = ip_address(address)
        return any(place in network for network in self.networks)


@lru_cache(maxsize=8)
def parse_proxies(text: str) -> Proxies:
    """Read "10.0.0.0/8, 127.0.0.1, unix". Raises ValueError naming the part that is wrong."""
    networks: list[IPv4Network | IPv6Network] = []
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if part == UNIX:
            continue
        try:
            networks.append(ip_network(part))
        except ValueError:
            raise ValueError(part) from None
    return Proxies(tuple(networks), UNIX in parts)


def client_of(remote: str, forwarded: str, proxies: Proxies) -> str:
    """The client's address, or "" where the server knows none (a socket file).

    `remote` is who holds the connection, `forwarded` the value of `X-Forwarded-For`.
    """
    place = _address(remote)
    for hop in reversed(forwarded.split(",")):
        if not proxies.have(place):
            break
        before = _address(hop)
        if not before:
            break
        place = before
    return place


def household(address: str) -> str:
    """The address, or for IPv6 the network of which one customer has all addresses."""
    if not address or not isinstance(ip_address(address), IPv6Address):
        return address
    return str(ip_network(f"{address}/{SIXTY_FOUR}", strict=False))


def _address(text: str) -> str:
    """The address in its shortest form, without a port or zone; "" if it is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


@lru_cache(maxsize=8)
def parse_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Read "10.0.0.0/8, ::1". Raises ValueError naming the part that is wrong."""
    found: list[IPv4Network | IPv6Network] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ip_network(part))
        except ValueError:
            raise ValueError(part) from None
    return tuple(found)
