"""Where a request comes from: never what a client says of itself."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings

from jobs.addresses import client_of, household, parse_proxies
from jobs.audit import client_address
from jobs.middleware import ClientAddressMiddleware

OURS = parse_proxies("10.0.0.0/8, 2001:db8::/32, unix")


@pytest.mark.parametrize(
    ("remote", "forwarded", "client"),
    [
        # Nobody in between: what the client says counts for nothing.
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("203.0.113.7", "10.0.0.1", "203.0.113.7"),
        # One proxy, then two: the last word before them.
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1,10.9.9.9,198.51.100.1", "198.51.100.1"),
        # A proxy through a socket file; a client inside the network of the proxies.
        ("", "198.51.100.1", "198.51.100.1"),
        ("", "", ""),
        ("10.0.0.1", "10.0.0.3", "10.0.0.3"),
        ("10.0.0.1", "", "10.0.0.1"),
        # What is no address ends the walk.
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, <script>", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, 10.0.0.2, ", "10.0.0.1"),
        # Ports, zones, mapped and long forms.
        ("10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
        ("::ffff:10.0.0.1", "[2001:DB9:0::1]:4711", "2001:db9::1"),
        ("fe80::1%eth0", "198.51.100.1", "fe80::1"),
        ("not an address", "198.51.100.1", "198.51.100.1"),
    ],
)
def test_only_our_proxies_say_who_the_client_is(remote: str, forwarded: str, client: str) -> None:
    assert client_of(remote, forwarded, OURS) == client


def test_without_proxies_nobody_is_believed() -> None:
    assert client_of("", "198.51.100.1", parse_proxies("")) == ""
    assert client_of("127.0.0.1", "198.51.100.1", parse_proxies("")) == "127.0.0.1"


def test_a_household_has_one_address() -> None:
    assert household("2001:db8:1:2:3:4:5:6") == household("2001:db8:1:2::") == "2001:db8:1:2::/64"
    assert household("198.51.100.1") == "198.51.100.1"
    assert household("") == ""


@pytest.mark.parametrize("wrong", ["10.0.0.1/8", "proxy.example.org", "unix:/path", "10.0.0.300"])
def test_a_wrong_proxy_is_named_at_start(wrong: str) -> None:
    with (
        override_settings(COPPICE_TRUSTED_PROXIES=f"127.0.0.1,{wrong}"),
        pytest.raises(SystemCheckError, match=f"COPPICE_TRUSTED_PROXIES has '{wrong}'"),
    ):
        call_command("check")


@override_settings(COPPICE_TRUSTED_PROXIES="127.0.0.1")
def test_the_address_is_known_during_the_request_and_not_after() -> None:
    seen = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(client_address.get())
        return HttpResponse()

    request = RequestFactory().get("/", headers={"X-Forwarded-For": "198.51.100.1"})
    ClientAddressMiddleware(view)(request)
    assert seen == ["198.51.100.1"]
    assert client_address.get() == ""
