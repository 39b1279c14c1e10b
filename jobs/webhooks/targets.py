"""Which addresses a webhook may reach.

A URL that somebody typed must not become a way into the network: https only, and only addresses of
the public internet. A name is looked up once for a delivery, everything that it resolves to is
checked, and the connection goes to an address that was checked, not to the name: what the name means
a moment later changes nothing.

`COPPICE_WEBHOOK_ALLOW` lists networks that may be reached all the same, over http too.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)
from urllib.parse import urlsplit

from jobs import conf
from jobs.addresses import parse_networks
from jobs.errors import InvalidInput

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

LONGEST = 2_000
PORTS = {"https": 443, "http": 80}
HOSTS_OF_CLOUDS = frozenset({ip_address("168.63.129.16")})
"""Public by its number, but the cloud's own agent."""
NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, kw_only=True)
class Target:
    scheme: str
    host: str
    port: int
    path: str
    """With the query."""
    address: str
    """Checked; where to connect to."""

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def parse(url: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path. Raises InvalidInput; looks nothing up."""
    text = url.strip()
    if not text or len(text) > LONGEST or not text.isascii() or not text.isprintable():
        raise _refused(f"must be an address of at most {LONGEST:,} plain characters")
    if " " in text or "\\" in text:
        raise _refused("must not hold spaces or backslashes")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _refused("is not an address") from None
    if parts.scheme not in PORTS:
        raise _refused("must begin with https://")
    if not parts.hostname or "%" in parts.hostname:
        raise _refused("has no host")
    if parts.username is not None or parts.password is not None:
        raise _refused("must not hold a name or a password: deliveries are signed")
    if parts.fragment:
        raise _refused("must not hold a #")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, parts.hostname, PORTS[parts.scheme] if port is None else port, path


def resolve(url: str) -> Target:
    """Look the host up and check all that it resolves to. Raises InvalidInput."""
    scheme, host, port, path = parse(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _refused("has a host that cannot be resolved") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not addresses:
        raise _refused("has a host that cannot be resolved")
    allowed = allowed_networks()
    for text in addresses:
        check(text, scheme, allowed)
    return Target(scheme=scheme, host=host, port=port, path=path, address=addresses[0])


def check(text: str, scheme: str, allowed: tuple[Network, ...]) -> None:
    """Raises InvalidInput when a delivery may not go to this address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        raise _refused("has a host that cannot be resolved") from None
    if any(_within(inner, allowed) for inner in meanings(address)):
        return
    if scheme != "https":
        raise _refused("must begin with https://")
    if "%" in text or not all(is_public(inner) for inner in meanings(address)):
        raise _refused("leads into a private network, which webhooks may not reach")


def is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and address not in HOSTS_OF_CLOUDS
    )


def meanings(address: Address) -> list[Address]:
    """The address, or for IPv6 that only stands for an IPv4 address, what it stands for."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in NAT64:
        return [IPv4Address(int(address) & 0xFFFF_FFFF)]
    if address.sixtofour:
        return [address, address.sixtofour]
    if address.teredo:
        return [address, *address.teredo]
    return [address]


def allowed_networks() -> tuple[Network, ...]:
    return parse_networks(conf.get().webhook_allow)


def _within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def _refused(text: str) -> InvalidInput:
    return InvalidInput(text, field="url")
