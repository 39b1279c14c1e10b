"""What every answer tells a browser, and what may be asked from another site: nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.test import Client, override_settings
from django.utils.csp import build_policy

from jobs.security import csp
from tests.security.people import person

CHECKOUT = Path(__file__).resolve().parents[2]
ELSEWHERE = "https://evil.example.net"
FRIEND = "https://dashboard.example.org"
EVERYWHERE = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGES = [
    "/admin/login/",
    "/admin/",
    "/admin/jobs/job/",
    "/admin/jobs/apitoken/add/",
    "/admin/nowhere/",
    "/api/v1/jobs",
    "/api/v1/jobs/nowhere",
    "/api-docs",
    "/api-docs.json",
    "/nowhere",
    "/healthz",
]

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss() -> Client:
    client = Client()
    client.force_login(person(superuser=True))
    return client


def policy(response: Any) -> str:
    return re.sub(r" 'nonce-[^']+'", "", response["Content-Security-Policy"])


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("who", ["nobody", "superuser"])
def test_every_answer_is_guarded_and_kept_by_no_cache(path: str, who: str, boss: Client) -> None:
    response = (boss if who == "superuser" else Client()).get(path)
    found = {name: response.headers.get(name) for name in EVERYWHERE}
    assert found == EVERYWHERE
    assert "camera=()" in response["Permissions-Policy"]
    assert "no-store" in response["Cache-Control"]
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in response["Content-Security-Policy"]
    assert "unsafe-eval" not in response["Content-Security-Policy"]


class TestPolicy:
    @pytest.mark.parametrize("path", [p for p in PAGES if p != "/api-docs"])
    def test_it_is_strict(self, boss: Client, path: str) -> None:
        assert policy(boss.get(path)) == build_policy(csp.STRICT)
        assert "unsafe" not in build_policy(csp.STRICT)

    def test_two_kinds_of_pages_may_style_themselves(self, boss: Client) -> None:
        for path, accept, allowed in [
            ("/api-docs", "text/html", csp.SWAGGER_UI),
            ("/api/v1/jobs", "text/html", csp.BROWSABLE_API),
        ]:
            found = policy(boss.get(path, headers={"Accept": accept}))
            assert found == build_policy(allowed)
            assert "script-src 'self';" in found
            assert found.count("unsafe") == found.count("style-src 'self' 'unsafe-inline'") == 1

    def test_a_nonce_is_of_one_answer(self, boss: Client) -> None:
        found = {
            re.findall(r"nonce-([\w-]+)", boss.get("/admin/")["Content-Security-Policy"])[0]
            for _ in range(3)
        }
        assert len(found) == 3


class TestOtherSites:
    @pytest.mark.parametrize("path", ["/api/v1/jobs", "/admin/", "/api-docs.json", "/healthz"])
    def test_they_are_told_nothing(self, boss: Client, path: str) -> None:
        for response in (
            boss.get(path, headers={"Origin": ELSEWHERE}),
            boss.options(
                path,
                headers={
                    "Origin": ELSEWHERE,
                    "Access-Control-Request-Method": "POST",
                    "Access-Control-Request-Headers": "authorization",
                },
            ),
        ):
            assert not [name for name in response.headers if name.lower().startswith("access-")]

    @override_settings(CORS_ALLOWED_ORIGINS=[FRIEND])
    def test_one_that_is_allowed_reads_the_api_with_a_token_and_no_page(self, boss: Client) -> None:
        headers = {"Origin": FRIEND, "Access-Control-Request-Method": "POST"}
        headers["Access-Control-Request-Headers"] = "authorization, idempotency-key"
        asked = Client().options("/api/v1/jobs", headers=headers)
        assert asked["Access-Control-Allow-Origin"] == FRIEND
        assert "idempotency-key" in asked["Access-Control-Allow-Headers"]
        # Not with a session's cookie.
        assert "Access-Control-Allow-Credentials" not in asked.headers
        for path in ("/admin/", "/api-docs.json", "/healthz"):
            response = boss.get(path, headers={"Origin": FRIEND})
            assert "Access-Control-Allow-Origin" not in response.headers
        response = boss.get("/api/v1/jobs", headers={"Origin": ELSEWHERE})
        assert "Access-Control-Allow-Origin" not in response.headers

    def test_static_files_are_not_for_them_either(self) -> None:
        assert settings.WHITENOISE_ALLOW_ALL_ORIGINS is False


@override_settings(ALLOWED_HOSTS=["console.example.org"])
@pytest.mark.parametrize("path", ["/admin/login/", "/api/v1/jobs", "/api-docs.json"])
@pytest.mark.parametrize(
    "host", ["evil.example.net", "console.example.org.evil.net", "a@console.example.org", ""]
)
def test_a_host_that_is_not_ours_is_refused(path: str, host: str) -> None:
    assert Client().get(path, headers={"Host": host}).status_code == 400
    ours = {"Host": "console.example.org", "X-Forwarded-Host": host or "evil.example.net"}
    response = Client().get(path, headers=ours)
    assert response.status_code in (200, 302, 401)
    assert "evil" not in response.content.decode() + str(response.headers)


class TestSession:
    def test_its_cookie_is_for_this_site_and_no_script(self) -> None:
        User.objects.create_superuser("boss", password="correct horse battery")
        client = Client()
        data = {"username": "boss", "password": "correct horse battery"}
        response = client.post("/admin/login/", data)
        cookie = response.cookies[settings.SESSION_COOKIE_NAME]
        assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")

    def test_signing_in_begins_a_new_one_and_out_ends_it(self) -> None:
        User.objects.create_superuser("boss", password="correct horse battery")
        client = Client()
        before = client.session
        before["planted"] = 1
        before.save()
        client.cookies[settings.SESSION_COOKIE_NAME] = before.session_key or ""
        data = {"username": "boss", "password": "correct horse battery"}
        client.post("/admin/login/", data)
        key = client.cookies[settings.SESSION_COOKIE_NAME].value
        assert key != before.session_key
        assert client.get("/api/v1/jobs").status_code == 200
        client.post("/admin/logout/")
        client.cookies[settings.SESSION_COOKIE_NAME] = key
        assert client.get("/api/v1/jobs").status_code == 401

    def test_a_changed_password_ends_the_others(self, boss: Client) -> None:
        assert boss.get("/api/v1/jobs").status_code == 200
        user = User.objects.get()
        user.set_password("another horse battery")
        user.save()
        assert boss.get("/api/v1/jobs").status_code == 401


@pytest.mark.parametrize("weak", ["short", "elevenchars", "password1234", "123456789012", "anna"])
def test_weak_passwords_are_refused(weak: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(weak, User(username="annabelle-lee"))
    validate_password("correct horse battery", User(username="annabelle-lee"))


def test_with_https_nothing_goes_over_http() -> None:
    names = [
        *("SECURE_SSL_REDIRECT", "SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS"),
        *("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_NAME"),
        *("CSRF_COOKIE_NAME", "SECURE_PROXY_SSL_HEADER", "SECURE_REDIRECT_EXEMPT"),
    ]
    show = "import json, sys; from django.conf import settings as s; "
    show += "print(json.dumps({n: getattr(s, n) for n in sys.argv[1:]}))"
    variables = {"HTTPS": "true", "DATABASE_URL": "postgresql://db/coppice"}
    variables["DJANGO_SETTINGS_MODULE"] = "config.settings"
    command = [sys.executable, "-c", show, *names]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found.pop("SECURE_HSTS_SECONDS") >= 31_536_000
    assert found == {
        "SECURE_SSL_REDIRECT": True,
        "SECURE_HSTS_INCLUDE_SUBDOMAINS": True,
        "SESSION_COOKIE_SECURE": True,
        "CSRF_COOKIE_SECURE": True,
        # The browser itself sees to it that such a cookie is of this host and came over https.
        "SESSION_COOKIE_NAME": "__Host-sessionid",
        "CSRF_COOKIE_NAME": "__Host-csrftoken",
        "SECURE_PROXY_SSL_HEADER": None,
        "SECURE_REDIRECT_EXEMPT": ["^(healthz|readyz|metrics)$"],
    }
