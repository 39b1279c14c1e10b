"""Signing in: those who guess wait longer and longer, and learn nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import aauthenticate, authenticate
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.http import HttpRequest
from django.test import Client, override_settings
from django.urls import reverse

from jobs.database import DjangoDatabase
from jobs.models import LoginFailure
from jobs.security import tries

RIGHT = "correct horse battery"


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_user("anna", password=RIGHT, is_staff=True)


def sign_in(name: str, password: str, address: str = "198.51.100.1") -> tuple[bool, str]:
    """Whether the admin's form let somebody in, and what it said."""
    client = Client(REMOTE_ADDR=address)
    data = {"username": name, "password": password}
    response = client.post(reverse("admin:login"), data)
    if response.status_code == 302:
        return True, ""
    [said] = response.context["form"].non_field_errors()
    return False, said


def wait(seconds: float) -> None:
    """As if this much time had passed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_loginfailure SET blocked_until = blocked_until - %s * interval '1 second'",
            [seconds],
        )


def left_to_wait(name: str) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM blocked_until - clock_timestamp())::float8"
            " FROM jobs_loginfailure WHERE key = %s",
            [tries.keys_of(name, "")[-1]],
        )
        return float(cursor.fetchone()[0])


def fail(times: int, name: str = "anna", address: str = "198.51.100.1") -> None:
    for _ in range(times):
        assert not sign_in(name, "wrong", address)[0]


def watch_passwords(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names whose passwords are looked at, as it happens; none of them is right."""
    looked: list[str] = []

    def look(self: Any, request: Any, username: str, password: str) -> None:
        looked.append(username)

    monkeypatch.setattr(ModelBackend, "authenticate", look)
    return looked


class TestName:
    def test_after_some_failures_even_the_right_password_has_to_wait(self, anna: User) -> None:
        fail(tries.FREE_OF_NAME + 1)
        assert not sign_in("anna", RIGHT)[0]
        wait(3)
        assert sign_in("anna", RIGHT)[0]

    def test_each_failure_doubles_the_wait_up_to_a_bound(self, anna: User) -> None:
        fail(tries.FREE_OF_NAME)
        waits = []
        for _ in range(12):
            wait(1_000)
            fail(1, address="")
            waits.append(left_to_wait("anna"))
        assert [round(seconds) for seconds in waits[:4]] == [2, 4, 8, 16]
        assert max(waits) <= tries.LONGEST_SECONDS
        assert round(waits[-1]) == tries.LONGEST_SECONDS

    def test_trying_while_blocked_makes_nobody_wait_longer(self, anna: User) -> None:
        fail(tries.FREE_OF_NAME + 1)
        before = left_to_wait("anna")
        fail(10, address="")
        assert left_to_wait("anna") <= before

    def test_a_right_password_forgets_the_failures(self, anna: User) -> None:
        fail(tries.FREE_OF_NAME)
        assert sign_in("anna", RIGHT)[0]
        fail(tries.FREE_OF_NAME)
        assert sign_in("anna", RIGHT)[0]

    def test_a_name_spelled_otherwise_is_the_same_name(self, anna: User) -> None:
        for name in ("ANNA", " anna", "\uff41nna", "Anna ", "aNNa", "annA"):
            fail(1, name=name, address="")
        assert not sign_in("anna", RIGHT, "")[0]

    def test_another_name_is_not_blocked_by_it(self, anna: User) -> None:
        fail(tries.FREE_OF_NAME + 1, name="somebody else")
        assert sign_in("anna", RIGHT)[0]


class TestAddress:
    def test_one_address_cannot_try_many_names(self, anna: User) -> None:
        for number in range(tries.FREE_OF_ADDRESS + 1):
            fail(1, name=f"name{number}")
        assert not sign_in("anna", RIGHT)[0]
        assert sign_in("anna", RIGHT, "198.51.100.2")[0]

    def test_a_customer_of_a_provider_is_one_address(self, anna: User) -> None:
        for number in range(tries.FREE_OF_ADDRESS + 1):
            fail(1, name=f"name{number}", address=f"2001:db8:1:2::{number:x}")
        assert not sign_in("anna", RIGHT, "2001:db8:1:2:ffff::1")[0]
        assert sign_in("anna", RIGHT, "2001:db8:1:3::1")[0]

    def test_a_password_of_ones_own_gives_no_free_tries_for_others(self, anna: User) -> None:
        for number in range(tries.FREE_OF_ADDRESS):
            fail(1, name=f"name{number}")
            assert sign_in("anna", RIGHT)[0]
        fail(1, name="one more")
        assert not sign_in("anna", RIGHT)[0]

    @override_settings(COPPICE_TRUSTED_PROXIES="10.0.0.1")
    def test_behind_our_proxy_it_is_the_clients_address(self, anna: User) -> None:
        def through(address: str, password: str) -> int:
            client = Client(REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": address})
            data = {"username": "anna", "password": password}
            return client.post(reverse("admin:login"), data).status_code

        for number in range(tries.FREE_OF_ADDRESS + 1):
            fail(1, name=f"name{number}", address="198.51.100.9")
        assert through("1.1.1.1, 198.51.100.9", RIGHT) == 200
        assert through("198.51.100.9, 1.1.1.1", RIGHT) == 302


class TestSecrecy:
    def test_all_refusals_are_alike(self, anna: User) -> None:
        User.objects.create_user("gone", password=RIGHT, is_staff=True, is_active=False)
        User.objects.create_user("plain", password=RIGHT)
        said = {sign_in(name, RIGHT)[1] for name in ("nobody", "gone", "plain")}
        said.add(sign_in("anna", "wrong")[1])
        fail(tries.FREE_OF_NAME)
        said.add(sign_in("anna", RIGHT)[1])
        fail(tries.FREE_OF_NAME + 1, name="nobody", address="")
        said.add(sign_in("nobody", RIGHT, "")[1])
        assert len(said) == 1

    def test_no_password_is_looked_at_while_blocked(
        self, anna: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looked = watch_passwords(monkeypatch)
        fail(tries.FREE_OF_NAME + 5)
        assert len(looked) == tries.FREE_OF_NAME + 1

    def test_neither_names_nor_passwords_are_stored_or_logged(
        self, anna: User, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level("DEBUG")
        typed = "hunter2 typed as a name"
        fail(tries.FREE_OF_NAME + 2, name=typed)
        stored = str(list(LoginFailure.objects.values_list()))
        logged = caplog.text + "".join(capfd.readouterr())
        assert "login.failed" in logged
        assert "login.blocked" in logged
        assert "198.51.100.1" in logged
        for text in (stored, logged):
            assert "hunter2" not in text
            assert "wrong" not in text


@pytest.mark.django_db(transaction=True)
def test_tries_at_the_same_moment_are_as_many_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = watch_passwords(monkeypatch)
    meet = threading.Barrier(tries.FREE_OF_NAME + 5)

    def guess() -> None:
        meet.wait(timeout=90)
        try:
            authenticate(HttpRequest(), username="anna", password="guess")
        finally:
            connection.close()

    threads = [threading.Thread(target=guess) for _ in range(meet.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looked) == tries.FREE_OF_NAME + 1


def test_async_callers_are_throttled_too(anna: User) -> None:
    """Django's own backend has an async twin, which must not be a way around."""
    found = async_to_sync(aauthenticate)(HttpRequest(), username="anna", password=RIGHT)
    assert found == anna
    for _ in range(tries.FREE_OF_NAME + 1):
        async_to_sync(aauthenticate)(HttpRequest(), username="anna", password="wrong")
    assert async_to_sync(aauthenticate)(HttpRequest(), username="anna", password=RIGHT) is None


class TestTidying:
    def test_failures_of_another_day_are_forgotten(self, anna: User) -> None:
        fail(tries.FREE_OF_NAME + 1)
        wait(tries.FORGOTTEN_AFTER_SECONDS + 10)
        fail(tries.FREE_OF_NAME)
        assert sign_in("anna", RIGHT)[0]

    def test_the_leader_deletes_what_no_longer_counts(self, anna: User) -> None:
        fail(1)
        assert tries.prune(DjangoDatabase()) == 0
        wait(tries.FORGOTTEN_AFTER_SECONDS + 10)
        fail(1, name="new", address="")
        assert tries.prune(DjangoDatabase()) == 2
        assert LoginFailure.objects.count() == 1

    def test_an_operator_can_let_somebody_in_at_once(
        self, anna: User, capsys: pytest.CaptureFixture[str]
    ) -> None:
        fail(tries.FREE_OF_NAME + 1)
        call_command("unblock_login", "anna")
        assert sign_in("anna", RIGHT)[0]
        for number in range(tries.FREE_OF_ADDRESS + 1):
            fail(1, name=f"name{number}")
        call_command("unblock_login", "198.51.100.1")
        assert sign_in("anna", RIGHT)[0]
        fail(1)
        call_command("unblock_login", "--all")
        assert not LoginFailure.objects.exists()
        with pytest.raises(CommandError, match="nobody: "):
            call_command("unblock_login", "nobody")
        with pytest.raises(CommandError, match="--all"):
            call_command("unblock_login")
        assert "anna" in capsys.readouterr().out


def test_who_has_to_wait_can_know_why(anna: User) -> None:
    """As everybody is told the same, it can say so to everybody."""
    assert "After several failures you must wait" in sign_in("nobody", "wrong")[1]
    assert "correct username and password" in sign_in("nobody", "wrong")[1]
