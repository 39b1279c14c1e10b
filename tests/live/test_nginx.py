"""Live events through a real nginx, as docs/operating.md sets it up and as it comes."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client

from tests.live.clients import Refused, Site, wait_for
from tests.live.conftest import Server, make_user

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx)")

PLAIN = """
    gzip on;
    gzip_types *;
    server {
        listen 443 ssl;
        location / { proxy_pass http://127.0.0.1:8000; proxy_set_header Host $http_host; }
    }
"""


@contextmanager
def nginx(folder: Path, server: Server, text: str) -> Iterator[tuple[str, int]]:
    """An nginx with this configuration in its `http` block, in front of the server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    text = re.sub(r"ssl_certificate\S* .*", "", text)
    text = text.replace("listen 443 ssl;", f"listen {address[0]}:{address[1]};")
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server.address[1]}")
    paths = "\n".join(
        f"{name}_temp_path {folder}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"pid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}\n{text}\n}}\n"
    )
    assert NGINX is not None
    command = [NGINX, "-p", str(folder), "-c", str(file), "-g", "daemon off; master_process off;"]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(OSError), socket.create_connection(address, timeout=1):
            return True
        return False

    try:
        wait_for(answers)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def recommended() -> str:
    page = Path("docs/operating.md").read_text()
    found = re.search(r"## nginx in front.*?```nginx\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1]


def behind(site: Site, address: tuple[str, int]) -> Site:
    return replace(site, address=address, host=f"localhost:{address[1]}")


def test_events_and_sockets_get_through_as_recommended(
    server: Server, site: Site, tmp_path: Path, tell: Callable[..., None]
) -> None:
    client = Client()
    client.force_login(make_user("jobs.view_job"))
    cookie = f"sessionid={client.cookies['sessionid'].value}"
    with nginx(tmp_path, server, recommended()) as address:
        here = behind(site, address)
        own = {"Cookie": cookie, "Origin": f"http://{here.host}"}
        with here.events("event=job.*") as events, here.socket(own) as console:
            assert events.hear("ready")
            console.sub("jobs")
            for number in range(3):  # each while the response is still open
                tell("job.created", queue=f"q{number}")
                assert events.hear("job.created").data["queue"] == f"q{number}"
                [*_, frame] = console.hear_until(lambda message: message.get("events"))
                assert frame["events"][-1]["queue"] == f"q{number}"
        with pytest.raises(Refused):
            here.socket({**own, "Origin": "http://evil.example"})
        assert here.poll("overview")["feed"] == "live"


def test_events_get_through_an_nginx_that_knows_nothing_of_them(
    server: Server, site: Site, tmp_path: Path, tell: Callable[..., None]
) -> None:
    with (
        nginx(tmp_path, server, PLAIN) as address,
        behind(site, address).events("event=job.*") as events,
    ):
        assert events.hear("ready")
        tell("job.created", queue="q")
        assert events.hear("job.created").data["queue"] == "q"
        assert "content-encoding" not in events.wire.headers
