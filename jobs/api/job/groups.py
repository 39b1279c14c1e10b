"""`/jobs/dlq/groups`: dead letters by type and kind of error, the biggest groups first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import deadletters, permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.output import HIDDEN, MomentField
from jobs.database import DjangoDatabase


class DeadLetterGroupSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    error_fingerprint = serializers.CharField(help_text="With `type`, what a filter takes.")
    count = serializers.IntegerField()
    is_capped = serializers.BooleanField(help_text="There are at least `count`.")
    first_at = MomentField(help_text="When the first of them died.")
    last_at = MomentField()
    queues = serializers.DictField(
        child=serializers.IntegerField(), help_text="Of the newest: how many by queue."
    )
    job_id = serializers.UUIDField(help_text="The newest of them.")
    error = serializers.CharField(allow_null=True, help_text="That of the newest.")
    hidden = HIDDEN


class DeadLetterGroupsSerializer(serializers.Serializer[Any]):
    groups = DeadLetterGroupSerializer(many=True)
    is_cut = serializers.BooleanField(help_text="There are more groups than are shown.")


class DeadLetterGroupsView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = DeadLetterGroupsSerializer

    @extend_schema(operation_id="list_dead_letter_groups", tags=["dead letters"])
    def get(self, request: Request) -> Response:
        """List dead letters by type and kind of error, the biggest groups first.

        Looking that takes more than 3 seconds is refused with the code `too_broad`.
        """
        refuse_unknown(request)
        found = deadletters.groups(DjangoDatabase())
        shown = {"groups": [self._shown(group) for group in found.groups], "is_cut": found.is_cut}
        return Response(DeadLetterGroupsSerializer(shown).data)

    def _shown(self, group: deadletters.Group) -> dict[str, Any]:
        error = self.reader.text(group.error)
        return {**asdict(group), "error": error, "hidden": ["error"] if error is None else []}
