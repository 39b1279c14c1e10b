"""The form of the display preferences: what may be chosen, and what is kept of it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone

from jobs import permissions
from jobs.admin.ledger import columns
from jobs.admin.reading import may_read
from jobs.console import preferences
from jobs.errors import InvalidInput
from jobs.models import Preferences
from jobs.models.preferences import DENSITIES, ROWS, THEMES
from jobs.moments import zone_named

SINGLY = ("theme", "shortcuts")
"""What is also chosen elsewhere than in the form, one at a time."""
OF_JOBS = ("rows", "live", "follow_log", "columns")
"""What says nothing to somebody who sees no jobs."""
THEME_WORDS = {"auto": "as the system"}


class DisplayForm(forms.Form):
    theme = forms.ChoiceField(choices=[(each, THEME_WORDS.get(each, each)) for each in THEMES])
    density = forms.ChoiceField(choices=[(each, each) for each in DENSITIES])
    time_zone = forms.CharField(
        required=False,
        max_length=64,
        widget=forms.TextInput({"list": "d-zones", "autocomplete": "off", "spellcheck": "false"}),
        help_text="Times are shown and typed in it. Such as Europe/Berlin; empty: the server's.",
    )
    rows = forms.TypedChoiceField(
        label="Rows on a page",
        required=False,
        coerce=int,
        empty_value=None,
        choices=[("", "as each list has it"), *((str(each), str(each)) for each in ROWS)],
    )
    reduced_colour = forms.BooleanField(
        required=False, help_text="States are told by icon, word and pattern alone."
    )
    live = forms.BooleanField(
        label="Live updates",
        required=False,
        help_text="Else pages begin paused, and go on when you press Paused, or p.",
    )
    follow_log = forms.BooleanField(
        label="The log moves by itself",
        required=False,
        help_text="Else new lines wait until you ask for them.",
    )
    shortcuts = forms.BooleanField(label="Keyboard shortcuts", required=False)
    columns = forms.MultipleChoiceField(
        label="Columns of the list of jobs",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Each state shows those of them that say something about it.",
    )

    def __init__(self, request: HttpRequest, *, only: str = "", **options: Any) -> None:
        chosen = preferences.of(request)
        super().__init__(auto_id="d-%s", initial=_initial(chosen), **options)
        self.request = request
        self.offered = columns.to_choose(may_read=may_read(request))
        self.fields["time_zone"].widget.attrs["placeholder"] = timezone.get_default_timezone_name()
        names = [(column.name, column.label) for column in self.offered]
        self.fields["columns"].choices = names  # type: ignore[attr-defined]
        sees_jobs = request.user.has_perm(permissions.VIEW)
        for name in list(self.fields):
            if (only and name != only) or (name in OF_JOBS and not sees_jobs):
                del self.fields[name]

    def clean_time_zone(self) -> str:
        name = str(self.cleaned_data["time_zone"]).strip()
        if not name:
            return ""
        try:
            return str(zone_named(name))
        except InvalidInput as error:
            raise ValidationError(f"This {error.message}.") from None

    def keep(self) -> None:
        """Once it is valid."""
        chosen = dict(self.cleaned_data)
        if "columns" in chosen:
            chosen["hidden_columns"] = preferences.hidden_columns(
                self.request,
                offered={column.name for column in self.offered},
                wanted=set(chosen.pop("columns")),
            )
        preferences.save(self.request.user, **chosen)


def _initial(chosen: Preferences) -> dict[str, Any]:
    shown = [name for name in columns.COLUMNS if name not in chosen.hidden_columns]
    return {
        "theme": chosen.theme or THEMES[0],
        "density": chosen.density,
        "time_zone": chosen.time_zone,
        "rows": chosen.rows or "",
        "reduced_colour": chosen.reduced_colour,
        "live": chosen.live,
        "follow_log": chosen.follow_log,
        "shortcuts": chosen.shortcuts,
        "columns": shown,
    }
