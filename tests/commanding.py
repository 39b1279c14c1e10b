"""A command of `manage.py`, called in the test's own process."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.management import CommandError, call_command


@dataclass(frozen=True)
class Command:
    name: str

    def run(self, *arguments: str) -> str:
        """What it prints."""
        out = io.StringIO()
        call_command(self.name, *arguments, stdout=out)
        return out.getvalue()

    def answer(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def refused(self, *arguments: str) -> str:
        """What it says when it ends with 1 and has done nothing."""
        with pytest.raises(CommandError) as caught:
            self.run(*arguments)
        assert caught.value.returncode == 1
        return str(caught.value)
