"""The form to sign in, which says the same whatever is wrong."""

from __future__ import annotations

from django.contrib.admin.forms import AdminAuthenticationForm
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy

_WAIT = gettext_lazy("After several failures you must wait a while before the next try counts.")


class SignInForm(AdminAuthenticationForm):
    """Also to those who have to wait: whether they must would tell what they have found out."""

    error_messages = {
        **AdminAuthenticationForm.error_messages,
        "invalid_login": format_lazy(
            "{} {}", AdminAuthenticationForm.error_messages["invalid_login"], _WAIT
        ),
    }
