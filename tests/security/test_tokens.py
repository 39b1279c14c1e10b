"""API tokens: shown once, kept as a digest, each to its owner, and gone when they are revoked."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs import permissions, tokens
from jobs.errors import Conflict, InvalidInput
from jobs.ids import new_uuid
from jobs.models import ApiToken, AuditEntry
from tests.security.people import person

pytestmark = pytest.mark.django_db

LIST = "/admin/jobs/apitoken/"
ADD = "/admin/jobs/apitoken/add/"
KEY = re.compile(r"coppice_[A-Za-z0-9]{40}")


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def form(**more: Any) -> dict[str, Any]:
    return {"name": "deploy script", "valid_for": "90", "token_id": str(new_uuid()), **more}


def made(user: User, name: str = "a program", **more: Any) -> tuple[ApiToken, str]:
    return tokens.create(user, name, **more)


class TestKey:
    def test_it_is_found_by_nobody_who_has_only_the_database(self) -> None:
        token, key = made(person("Viewer"))
        with connection.cursor() as cursor:
            cursor.execute("SELECT t::text FROM jobs_apitoken t")
            [(row,)] = cursor.fetchall()
        assert key not in row
        assert key[tokens.SHOWN :] not in row
        assert tokens.find(key) == token
        assert tokens.find(token.digest) is None
        assert tokens.find(token.prefix) is None

    @pytest.mark.parametrize(
        "wrong", ["", "coppice_", "x" * 48, "coppice_" + "é" * 40, "coppice_" + "a" * 40, "\0"]
    )
    def test_what_is_no_key_is_none(self, wrong: str) -> None:
        assert tokens.find(wrong) is None

    def test_it_ends_with_its_term_its_user_and_its_revocation(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        user = person("Viewer")
        expiring, key = made(user, expires_at=timezone.now() + timedelta(hours=1))
        assert tokens.find(key) == expiring
        ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert tokens.find(key) is None
        token, key = made(user)
        User.objects.filter(pk=user.pk).update(is_active=False)
        assert tokens.find(key) is None
        User.objects.filter(pk=user.pk).update(is_active=True)
        assert tokens.find(key) == token
        assert tokens.revoke(token)
        assert not tokens.revoke(token)
        assert tokens.find(key) is None
        for reason in ("expired", "the user is not active", "revoked"):
            assert f"'reason': '{reason}'" in caplog.text
        assert key not in caplog.text
        assert key[tokens.SHOWN :] not in caplog.text

    def test_its_use_is_noted_about_once_a_minute(self, django_assert_num_queries: Any) -> None:
        token, key = made(person("Viewer"))
        with django_assert_num_queries(2):
            tokens.find(key)
        with django_assert_num_queries(1):
            tokens.find(key)
        token.refresh_from_db()
        assert token.last_used_at is not None
        past = timezone.now() - timedelta(seconds=tokens.USED_EVERY_SECONDS + 1)
        ApiToken.objects.update(last_used_at=past)
        tokens.find(key)
        token.refresh_from_db()
        assert token.last_used_at > past

    def test_bad_wishes_are_refused(self) -> None:
        user = person("Viewer")
        for name in ("", " ", "x" * 101, "a\0b"):
            with pytest.raises(InvalidInput, match=r"^name"):
                made(user, name)
        with pytest.raises(InvalidInput, match=r"^expires_at"):
            made(user, expires_at=timezone.now())
        user.is_active = False
        with pytest.raises(InvalidInput, match=r"^user"):
            made(user)
        assert not ApiToken.objects.exists()

    def test_making_and_revoking_are_audited_without_the_key(self) -> None:
        token, key = made(person("Viewer", "vera"), by="olga")
        tokens.revoke(token, by="olga")
        entries = list(AuditEntry.objects.order_by("id").values())
        assert [e["action"] for e in entries] == ["token.create", "token.revoke"]
        assert {e["actor"] for e in entries} == {"olga"}
        assert {e["object_id"] for e in entries} == {str(token.pk)}
        assert entries[0]["data"]["user"] == "vera"
        assert key[tokens.SHOWN :] not in str(entries)
        assert token.digest not in str(entries)


class TestAdmin:
    def test_the_key_is_on_one_page_and_nowhere_else(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        user = person("Operator")
        client = signed_in(user)
        response = client.post(ADD, form())
        assert response.status_code == 200
        [key] = KEY.findall(response.content.decode())
        assert response.content.decode().count(key[tokens.SHOWN :]) == 1
        found = tokens.find(key)
        assert found is not None
        assert found.user == user
        assert found.expires_at is not None
        assert 89 <= (found.expires_at - timezone.now()).days <= 90
        assert "no-store" in response["Cache-Control"]
        # A message would travel in a cookie, packed.
        assert set(response.cookies) <= {settings.CSRF_COOKIE_NAME}
        elsewhere = [
            str(response.headers),
            str(response.cookies),
            str(client.session.items()),
            caplog.text,
            str(list(LogEntry.objects.values())),
            client.get(LIST).content.decode(),
            client.get(f"{LIST}{found.pk}/change/").content.decode(),
            client.get(f"{LIST}{found.pk}/history/").content.decode(),
        ]
        for text in elsewhere:
            assert key not in text
            assert key[tokens.SHOWN :] not in text
        assert found.prefix in elsewhere[-2]

    def test_a_form_sent_twice_makes_one_token_and_shows_no_key_again(self) -> None:
        client = signed_in(person("Operator"))
        sent = form()
        client.post(ADD, sent)
        again = client.post(ADD, sent, follow=True)
        assert "made already" in again.content.decode()
        assert not KEY.search(again.content.decode())
        assert ApiToken.objects.count() == 1

    def test_people_see_and_revoke_their_own_only(self) -> None:
        vera, olga = person("Viewer", "vera"), person("Operator", "olga")
        mine, _ = made(vera, "of vera")
        other, key = made(olga, "of olga")
        client = signed_in(vera)
        text = client.get(LIST).content.decode()
        assert "of vera" in text
        assert "of olga" not in text
        assert client.get(f"{LIST}{other.pk}/change/").status_code in (302, 404)
        revoke(client, mine, other)
        assert ApiToken.objects.get(pk=mine.pk).revoked_at is not None
        assert tokens.find(key) == other

    def test_a_user_cannot_make_a_token_of_somebody_else(self) -> None:
        vera = person("Viewer", "vera")
        boss = person(superuser=True)
        signed_in(vera).post(ADD, form(username=boss.username, user=boss.pk))
        assert [token.user for token in ApiToken.objects.all()] == [vera]

    def test_superusers_manage_those_of_everybody(self) -> None:
        program = User.objects.create_user("program")
        client = signed_in(person(superuser=True))
        assert "There is no such user" in client.post(ADD, form(username="x")).content.decode()
        assert client.post(ADD, form()).status_code == 200
        assert not ApiToken.objects.exists()
        client.post(ADD, form(username="program", valid_for="0"))
        token = ApiToken.objects.get()
        assert (token.user, token.expires_at) == (program, None)
        assert "program" in client.get(LIST).content.decode()
        revoke(client, token)
        assert ApiToken.objects.get().revoked_at is not None

    def test_nothing_of_a_token_can_be_changed_or_deleted(self) -> None:
        client = signed_in(person(superuser=True))
        token, _ = made(person("Viewer"))
        client.post(f"{LIST}{token.pk}/change/", {"name": "another"})
        client.post(f"{LIST}{token.pk}/delete/", {"post": "yes"})
        assert ApiToken.objects.get().name == token.name

    def test_they_go_with_their_user(self) -> None:
        user = person("Operator")
        token, _ = made(user)
        page = reverse("admin:auth_user_delete", args=[user.pk])
        boss = signed_in(person(superuser=True))
        assert "a program" in boss.get(page).content.decode()
        assert boss.post(page, {"post": "yes"}).status_code == 302
        assert not User.objects.filter(pk=user.pk).exists()
        assert not ApiToken.objects.filter(pk=token.pk).exists()

    def test_a_bad_name_is_said_at_the_field(self) -> None:
        client = signed_in(person("Viewer"))
        for name in (" ", "x" * 101, "a\0b"):
            response = client.post(ADD, form(name=name))
            assert response.status_code == 200
            assert response.context["adminform"].form.errors["name"]
        assert not ApiToken.objects.exists()


def revoke(client: Client, *given: ApiToken) -> None:
    data = {"action": "revoke_tokens", "_selected_action": [str(token.pk) for token in given]}
    assert client.post(reverse("admin:jobs_apitoken_changelist"), data).status_code == 302


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
        call_command("tokens", *words, "--json")
        return json.loads(capsys.readouterr().out)

    def test_tokens_are_made_listed_and_revoked(self, capsys: pytest.CaptureFixture[str]) -> None:
        user = person("Viewer", "vera")
        new = self.run(capsys, "create", "nightly", "--user", "vera", "--days", "7")
        assert tokens.find(new["key"]) == ApiToken.objects.get()
        [listed] = self.run(capsys, "list", "--user", "vera")
        assert new.items() - listed.items() == {("key", new["key"]), ("last_used_at", None)}
        assert listed["last_used_at"]
        self.run(capsys, "revoke", listed["prefix"])
        assert tokens.find(new["key"]) is None
        assert self.run(capsys, "revoke", new["id"]) == {"revoked": []}
        assert AuditEntry.objects.filter(actor="manage.py").count() == 2
        made(user, "for ever")
        call_command("tokens", "list")
        assert "for ever" in capsys.readouterr().out

    def test_the_key_stands_alone_on_standard_output(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        person("Viewer", "vera")
        until = (timezone.now() + timedelta(days=1)).isoformat()
        call_command("tokens", "create", "nightly", "--user", "vera", "--expires", until)
        assert KEY.fullmatch(capsys.readouterr().out.strip())

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["create", "x", "--user", "nobody"], "--user: there is no user nobody"),
            (["create", " ", "--user", "vera"], "NAME: must not be blank"),
            (["create", "x", "--user", "vera", "--days", "0"], "--days: must be"),
            (
                ["create", "x", "--user", "vera", "--expires", "2001-01-01T00:00Z"],
                "--expires: must",
            ),
            (["create", "x", "--user", "vera", "--expires", "soon"], "--expires"),
            (["revoke", "coppice_xxxx"], "token coppice_xxxx does not exist"),
        ],
    )
    def test_what_is_refused_is_named(self, words: list[str], said: str) -> None:
        person("Viewer", "vera")
        with pytest.raises(CommandError, match=re.escape(said)):
            call_command("tokens", *words)

    def test_a_beginning_that_two_keys_share_revokes_neither(self) -> None:
        user = person("Viewer", "vera")
        first, _ = made(user)
        made(user)
        ApiToken.objects.update(prefix=first.prefix)
        with pytest.raises(CommandError, match="TOKEN: is the beginning of more than one key"):
            call_command("tokens", "revoke", first.prefix)
        assert not ApiToken.objects.filter(revoked_at__isnull=False).exists()


def test_one_request_makes_one_token() -> None:
    user = person("Viewer")
    id = new_uuid()
    made(user, id=id)
    with pytest.raises(Conflict):
        made(user, id=id)
    assert permissions.VIEW in user.get_all_permissions()
