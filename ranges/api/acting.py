"""What may be done to a run. Each answers the run as it stands afterwards."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from jobs import permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.operating.asking import Body, ReasonBody
from jobs.errors import InvalidInput
from ranges import declaring, lifecycle
from ranges.api.failures import RangeWaiveBody
from ranges.api.shapes import RangeRunSerializer, its_code
from ranges.api.views import TAGS, find, read
from ranges.facts import findings
from ranges.proof import verify

MOST_FAILURES = 1_000
"""Failures that one request names."""


class _ActView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_RUN}
    serializer_class: ClassVar[Any] = Body
    act: ClassVar[Any]

    def answer(self, request: Request, run_id: str) -> Response:
        refuse_unknown(request)
        asked = self.serializer_class.read(request)
        type(self).act(run_id, by=self.actor, **asked)
        return Response(read(run_id, self.reader))


class StartView(_ActView):
    act = staticmethod(lifecycle.start)

    @extend_schema(
        operation_id="start_range_run", tags=TAGS, request=None, responses=RangeRunSerializer
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Start a run that was created."""
        return self.answer(request, run_id)


WHY = OpenApiExample("Why", value={"reason": "the replicas lag"}, request_only=True)


class PauseView(_ActView):
    serializer_class: ClassVar[Any] = ReasonBody
    act = staticmethod(lifecycle.pause)

    @extend_schema(
        operation_id="pause_range_run", tags=TAGS, responses=RangeRunSerializer, examples=[WHY]
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Begin no leaf more. Those at work go on to their end."""
        return self.answer(request, run_id)


class ForcePauseView(_ActView):
    serializer_class: ClassVar[Any] = ReasonBody
    act = staticmethod(lifecycle.force_pause)

    @extend_schema(
        operation_id="force_pause_range_run",
        tags=TAGS,
        responses=RangeRunSerializer,
        examples=[OpenApiExample("Why", value={"reason": "the host is gone"}, request_only=True)],
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Pause a run, and take its jobs away from workers that show no sign of life.

        For when no live worker is left that would do so: with one, or with workers that live, it is
        refused. What such a worker still writes is refused too, and rolled back.
        """
        return self.answer(request, run_id)


class RangeResumeBody(Body):
    code_version = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=declaring.LONGEST_VERSION,
        help_text="Go on with this version of the job's class; left out: with the one of the run.",
    )


class ResumeView(_ActView):
    serializer_class: ClassVar[Any] = RangeResumeBody
    act = staticmethod(lifecycle.resume)

    @extend_schema(
        operation_id="resume_range_run",
        tags=TAGS,
        request=RangeResumeBody,
        responses=RangeRunSerializer,
        examples=[OpenApiExample("Change over", value={"code_version": "2"}, request_only=True)],
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Go on where it stopped. What failed so far no longer counts for the threshold.

        A run that paused because its class has another version goes on with the one that is named.
        """
        return self.answer(request, run_id)


class CancelView(_ActView):
    serializer_class: ClassVar[Any] = ReasonBody
    act = staticmethod(lifecycle.cancel)

    @extend_schema(
        operation_id="cancel_range_run", tags=TAGS, responses=RangeRunSerializer, examples=[WHY]
    )
    def post(self, request: Request, run_id: str) -> Response:
        """End a run for good, wherever it is."""
        return self.answer(request, run_id)


class RangeRetryBody(Body):
    failures = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=2**63 - 1),
        required=False,
        min_length=1,
        max_length=MOST_FAILURES,
        help_text="Ids of open failures; left out: all that are open.",
    )

    @classmethod
    def read(cls, request: Request) -> dict[str, Any]:
        given = super().read(request)
        ids = given.get("failures")
        if ids is not None:
            if not 1 <= len(ids) <= MOST_FAILURES:
                raise InvalidInput(f"must be 1 to {MOST_FAILURES:,} ids", field="failures")
            for id in ids:
                if isinstance(id, bool) or not isinstance(id, int) or not 0 < id < 2**63:
                    raise InvalidInput("must be ids of failures", field="failures")
        return given


class RetryFailedView(_ActView):
    serializer_class: ClassVar[Any] = RangeRetryBody
    act = staticmethod(lifecycle.retry_failed)

    @extend_schema(
        operation_id="retry_failed_of_range_run",
        tags=TAGS,
        request=RangeRetryBody,
        responses=RangeRunSerializer,
        examples=[OpenApiExample("Two of them", value={"failures": [7, 9]}, request_only=True)],
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Work at the open failures again, or at some of them. A run that has ended runs again."""
        return self.answer(request, run_id)


class WaiveFailedView(_ActView):
    serializer_class: ClassVar[Any] = RangeWaiveBody
    act = staticmethod(lifecycle.waive_all)

    @extend_schema(
        operation_id="waive_failed_of_range_run",
        tags=TAGS,
        request=RangeWaiveBody,
        responses=RangeRunSerializer,
        examples=[
            OpenApiExample("Why", value={"reason": "the rows are a test's"}, request_only=True)
        ],
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Close all open failures by decision. A run that failed is judged again."""
        return self.answer(request, run_id)


class AgainView(CoppiceView):
    needs: ClassVar = {"POST": permissions.CONTROL_RUN}
    serializer_class: ClassVar[Any] = Body

    @extend_schema(
        operation_id="run_range_again",
        tags=TAGS,
        request=None,
        responses={201: RangeRunSerializer},
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Make a new run over the same range with the same options. It is not started."""
        refuse_unknown(request)
        Body.read(request)
        run = find(run_id)
        with its_code(run.name):
            made = lifecycle.again(run, by=self.actor)
        place = reverse("coppice-range", kwargs={"run_id": str(made.id)}, request=request)
        return Response(read(made.id, self.reader), status=201, headers={"Location": place})


class RangeRetuneBody(Body):
    concurrency = serializers.IntegerField(min_value=1, max_value=1_000)


class RetuneView(_ActView):
    serializer_class: ClassVar[Any] = RangeRetuneBody
    act = staticmethod(lifecycle.retune)

    @extend_schema(
        operation_id="retune_range_run",
        tags=TAGS,
        request=RangeRetuneBody,
        responses=RangeRunSerializer,
        examples=[OpenApiExample("Four lanes", value={"concurrency": 4}, request_only=True)],
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Give a run more lanes, or fewer: those above the new number end with their leaf."""
        return self.answer(request, run_id)


class RangeVerifyBody(Body):
    complete = serializers.BooleanField(
        required=False, help_text="Also while it runs: nothing may be left."
    )


class RangeVerdictSerializer(serializers.Serializer[Any]):
    """What the proofs found. Widths are text; null: keys of this type cannot be added up."""

    ok = serializers.BooleanField(help_text="All proofs hold, whether or not it is finished.")
    is_complete = serializers.BooleanField(help_text="They hold, and nothing is left or failed.")
    findings = serializers.ListField(
        child=serializers.CharField(), help_text="What is wrong; empty: nothing."
    )
    nodes = serializers.IntegerField()
    breaks = serializers.IntegerField()
    first_break = serializers.CharField(allow_null=True)
    chain = serializers.BooleanField(help_text="Each node begins where the one before it ends.")
    multirange = serializers.BooleanField(
        allow_null=True, help_text="All nodes together are the range, none of it twice."
    )
    ledger = serializers.BooleanField(
        allow_null=True, help_text="Processed, skipped, failed and left add up in each node."
    )
    unbalanced = serializers.IntegerField()
    unfinished = serializers.IntegerField(help_text="Nodes with something left.")
    open_failures = serializers.IntegerField()
    rows_ok = serializers.IntegerField()
    rows_failed = serializers.IntegerField()
    width = serializers.CharField(allow_null=True)
    width_ok = serializers.CharField(allow_null=True)
    width_skipped = serializers.CharField(allow_null=True)
    width_failed = serializers.CharField(allow_null=True)
    width_left = serializers.CharField(allow_null=True)


class VerifyView(CoppiceView):
    needs: ClassVar = {"POST": permissions.VIEW}
    serializer_class: ClassVar[Any] = RangeVerifyBody

    @extend_schema(
        operation_id="verify_range_run",
        tags=TAGS,
        request=RangeVerifyBody,
        responses=RangeVerdictSerializer,
        examples=[OpenApiExample("When it has ended", value={}, request_only=True)],
    )
    def post(self, request: Request, run_id: str) -> Response:
        """Prove that a run covers its range: no gap, nothing twice, all of it accounted for.

        Changes nothing.
        """
        refuse_unknown(request)
        complete = RangeVerifyBody.read(request).get("complete", False)
        run = find(run_id)
        with its_code(run.name):
            verdict = verify(run)
            found = findings(run, verdict, must_be_complete=complete)
        shown = {"is_complete": verdict.is_complete, "findings": found}
        return Response({**verdict.as_json(), **shown})
