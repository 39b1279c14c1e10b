"""API tokens: people manage their own, superusers those of everybody.

A key is on one page only, the answer to the form that made it: not in an address, a message or a
log. Sending that form again makes no second token.
"""

# ruff: noqa: ARG002 - Django hands over more than is needed.

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import ActionLocation
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from jobs import permissions, tokens
from jobs.console import navigation
from jobs.console.admins import ConsoleAdmin
from jobs.errors import Conflict, InvalidInput
from jobs.ids import new_uuid
from jobs.models import ApiToken
from jobs.payloads import check_text
from jobs.templatetags.console import moment

TERMS = {7: "a week", 30: "30 days", 90: "90 days", 365: "a year", 0: "for ever"}
USUAL = 90


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    """A token of one's own."""

    valid_for = forms.TypedChoiceField(
        coerce=int, choices=list(TERMS.items()), initial=USUAL, label="Works for"
    )
    token_id = forms.UUIDField(widget=forms.HiddenInput, initial=new_uuid)

    class Meta:
        model = ApiToken
        fields: ClassVar = ["name"]

    def clean_name(self) -> str:
        try:
            return check_text(self.cleaned_data["name"], "name", max_length=100)
        except InvalidInput as error:
            raise ValidationError(error.message) from None


class AnybodysTokenForm(TokenForm):
    """For superusers: a token of any user, such as one that stands for a program."""

    username = forms.CharField(
        label="User", help_text="The token may do what this user may do.", max_length=150
    )

    def clean_username(self) -> Any:
        name = self.cleaned_data["username"]
        user = get_user_model()._default_manager.filter(**{_username(): name}).first()  # noqa: SLF001
        if user is None:
            raise ValidationError("There is no such user.")
        if not user.is_active:
            raise ValidationError("This user is not active.")
        return user


@admin.register(ApiToken)
class ApiTokenAdmin(ConsoleAdmin):
    nav = navigation.Entry(label="API tokens", section=navigation.MANAGE, order=700, icon="key")
    list_display = ("name", "key_begins", "user", "created", "last_used", "ends", "state")
    ordering = ("-id",)
    actions = ("revoke_tokens",)

    # Who

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiToken]:
        found = tokens.known()
        return found if _is_superuser(request) else found.filter(user=request.user.pk)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(permissions.VIEW)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tokens are revoked, and stay to be seen; but they go when their user is deleted."""
        here = request.resolver_match
        if here is None or str(here.url_name).startswith("jobs_apitoken_"):
            return False
        users = get_user_model()._meta  # noqa: SLF001
        return request.user.has_perm(f"{users.app_label}.delete_{users.model_name}")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(permissions.VIEW)

    # What is shown

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        hidden = () if _is_superuser(request) else ("user",)
        return [name for name in self.list_display if name not in hidden]

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> list[Any]:
        if obj is None:
            return list(self.get_form(request).base_fields)
        return ["name", "key_begins", "user", "state", "created", "last_used", "ends"]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> list[Any]:
        return [] if obj is None else self.get_fields(request, obj)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change, **kwargs)
        return AnybodysTokenForm if _is_superuser(request) else TokenForm

    @admin.display(description="key begins with")
    def key_begins(self, token: ApiToken) -> str:
        return f"{token.prefix}…"

    @admin.display(description="created")
    def created(self, token: ApiToken) -> str:
        return moment(token.created_at)

    @admin.display(description="last used")
    def last_used(self, token: ApiToken) -> str:
        return moment(token.last_used_at, "never")

    @admin.display(description="works until")
    def ends(self, token: ApiToken) -> str:
        return moment(token.expires_at, "for ever")

    @admin.display(description="state")
    def state(self, token: ApiToken) -> str:
        return tokens.state_of(token)

    # What is done

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        try:
            return super().add_view(request, form_url, extra_context)
        except Conflict:
            messages.warning(
                request,
                "This token has been made already. Its key was on the page before and cannot be "
                "shown again: if you have not kept it, revoke the token and make another.",
            )
            return HttpResponseRedirect(reverse(f"{self.admin_site.name}:jobs_apitoken_changelist"))

    @sensitive_variables("key")
    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        asked = form.cleaned_data
        days = asked["valid_for"]
        token, key = tokens.create(
            asked.get("username") or request.user,
            asked["name"],
            expires_at=timezone.now() + timedelta(days=days) if days else None,
            by=request.user.get_username(),
            id=asked["token_id"],
        )
        obj.__dict__.update(token.__dict__)
        obj.key = key

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        context = {"title": "The token is made", "token": obj, "key": obj.key}
        return self.page(request, "admin/jobs/apitoken/created.html", context)

    @admin.action(
        permissions=["revoke"],
        description="Revoke",
        location=[ActionLocation.CHANGE_LIST, ActionLocation.CHANGE_FORM],
    )
    def revoke_tokens(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        done = [
            token.name for token in queryset if tokens.revoke(token, by=request.user.get_username())
        ]
        if done:
            messages.success(request, f"Revoked: {', '.join(done)}.")
        else:
            messages.warning(request, "Nothing was revoked: it was before.")


def _is_superuser(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)


def _username() -> str:
    return str(get_user_model().USERNAME_FIELD)
