"""`manage.py tokens`: create, list, revoke."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables
from rich.table import Table

from jobs import tokens
from jobs.management.arguments import as_moment, print_json, print_table, refusals, shown
from jobs.models import ApiToken
from jobs.moments import parse_moment

BY = "manage.py"
NAMES = {"name": "NAME", "expires_at": "--expires", "user": "--user", "id": "TOKEN"}


class Command(BaseCommand):
    help = "Make, list and revoke keys with which programs use the API."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        creating = actions.add_parser("create", help="make a token, and print its key this once")
        creating.add_argument("name", metavar="NAME", help="who or what uses it")
        creating.add_argument("--user", metavar="USER", required=True, help="whom it acts as")
        ends = creating.add_mutually_exclusive_group()
        ends.add_argument("--days", type=int, metavar="N", help="how long it works; for ever")
        ends.add_argument("--expires", metavar="TIME", help="until when it works")
        listing = actions.add_parser("list", help="all tokens, without their keys")
        listing.add_argument("--user", metavar="USER", help="those of one user")
        revoking = actions.add_parser("revoke", help="end tokens for good")
        revoking.add_argument(
            "tokens", metavar="TOKEN", nargs="+", help="an id, or the beginning of a key as listed"
        )
        for each in actions.choices.values():
            each.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_: Any, **options: Any) -> None:
        actions = {"create": self.create, "list": self.list, "revoke": self.revoke}
        with refusals(NAMES):
            actions[options["action"]](options)

    @sensitive_variables("key")
    def create(self, options: dict[str, Any]) -> None:
        token, key = tokens.create(
            _user(options["user"]), options["name"], expires_at=_end(options), by=BY
        )
        if options["json"]:
            print_json(self.stdout, {**_facts(token), "key": key})
            return
        self.stdout.write(key)
        self.stderr.write("This is the only time that the key is shown.")

    def list(self, options: dict[str, Any]) -> None:
        found = tokens.known().order_by("-id")
        if options["user"] is not None:
            found = found.filter(user=_user(options["user"]))
        if options["json"]:
            print_json(self.stdout, [_facts(token) for token in found])
        elif rows := list(found):
            print_table(self.stdout, _table(rows))
        else:
            self.stdout.write("There are no tokens.")

    def revoke(self, options: dict[str, Any]) -> None:
        # All are found before the first is revoked: a slip of the hand changes nothing.
        found = [tokens.named(text) for text in options["tokens"]]
        done = [token for token in found if tokens.revoke(token, by=BY)]
        if options["json"]:
            print_json(self.stdout, {"revoked": [str(token.pk) for token in done]})
            return
        for token in found:
            word = "Revoked" if token in done else "Was revoked before:"
            self.stdout.write(f"{word} {shown(token.name)} ({token.prefix}…)")


def _user(name: str) -> Any:
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()  # noqa: SLF001
    if user is None:
        raise CommandError(f"--user: there is no user {shown(name)}")
    return user


def _end(options: dict[str, Any]) -> datetime | None:
    if options["days"] is not None:
        if not 1 <= options["days"] <= 36_500:
            raise CommandError("--days: must be from 1 to 36,500")
        return timezone.now() + timedelta(days=options["days"])
    if options["expires"] is None:
        return None
    return parse_moment(as_moment(options["expires"]), "expires_at")


def _facts(token: ApiToken) -> dict[str, Any]:
    return {
        "id": str(token.pk),
        "name": token.name,
        "prefix": token.prefix,
        "user": token.user.get_username(),
        "state": tokens.state_of(token),
        "expires_at": _iso(token.expires_at),
        "last_used_at": _iso(token.last_used_at),
    }


def _table(rows: list[ApiToken]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("ID", "NAME", "KEY", "USER", "STATE", "WORKS UNTIL", "LAST USED"):
        table.add_column(title, no_wrap=title == "ID")
    for token in rows:
        table.add_row(
            str(token.pk),
            shown(token.name),
            shown(f"{token.prefix}…"),
            shown(token.user.get_username()),
            shown(tokens.state_of(token)),
            _short(token.expires_at, "for ever"),
            _short(token.last_used_at, "never"),
        )
    return table


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _short(moment: datetime | None, otherwise: str) -> str:
    return otherwise if moment is None else f"{moment:%Y-%m-%d %H:%M}"
