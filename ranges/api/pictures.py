"""Where a run's work was done: the virtual tree, the strip of coverage, the stored nodes."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import permissions
from jobs.api.base import CoppiceView
from jobs.api.filters import refuse_unknown
from jobs.api.job.output import HIDDEN, MomentField
from jobs.api.pagination import (
    CURSOR,
    DEFAULT_LIMIT,
    LARGEST_LIMIT,
    LIMIT,
    KeysetPagination,
    read_cursor,
    read_number,
)
from jobs.errors import Conflict, InvalidInput
from jobs.texts import clean
from ranges.api.shapes import KEY, NODE_STATES, KeyField, NumberField, its_code
from ranges.api.views import TAGS, find
from ranges.drawing import DEEPEST, MOST_BUCKETS, coverage, lineage, tree
from ranges.models import RangeRun
from ranges.proof import bounds_of

DEFAULT_DEPTH, DEFAULT_WIDTH = 4, 200
ERROR_LENGTH = 500
LONGEST_PATH = 1_000
DIGITS = 9


class RangeBlockSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=NODE_STATES)
    processed = NumberField()
    skipped = NumberField()
    failed = NumberField()
    left = NumberField()


class RangeBranchSerializer(RangeBlockSerializer):
    """A block of the tree."""

    path = serializers.CharField(help_text='"" is the root, then 0 or 1 for each half.')
    lo = KeyField(allow_null=True)
    hi = KeyField(allow_null=True)
    children = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        help_text="Its two halves, alike; left out where a block is of one kind throughout.",
    )


class TreeView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = RangeBranchSerializer

    @extend_schema(
        operation_id="get_range_run_tree",
        tags=TAGS,
        parameters=[
            OpenApiParameter(
                "depth",
                {"type": "integer", "minimum": 0, "maximum": DEEPEST, "default": DEFAULT_DEPTH},
                description="Levels below the block.",
            ),
            OpenApiParameter(
                "path",
                {"type": "string", "pattern": "^[01]*$"},
                description="The block to begin at.",
            ),
        ],
        responses=RangeBranchSerializer,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Read the run as a tree of halves, 500 blocks at most.

        A run that is not planned yet has none (409).
        """
        refuse_unknown(request, ["depth", "path"])
        given = request.query_params
        run = _planned(run_id)
        depth = _number(given.get("depth"), "depth", DEFAULT_DEPTH)
        path = given.get("path", "")
        if len(path) > LONGEST_PATH:
            raise InvalidInput("names no block of the tree", field="path")
        with its_code(run.name):
            return Response(tree(run, depth, path=path))


class RangeBucketSerializer(RangeBlockSerializer):
    lo = KeyField(allow_null=True, help_text="Null for keys that are text.")


class RangeCoverageSerializer(serializers.Serializer[Any]):
    lo = KeyField(allow_null=True)
    hi = KeyField(allow_null=True)
    buckets = RangeBucketSerializer(many=True)


class CoverageView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    serializer_class: ClassVar[Any] = RangeCoverageSerializer

    @extend_schema(
        operation_id="get_range_run_coverage",
        tags=TAGS,
        parameters=[
            OpenApiParameter("from", KEY, description="The first key of the strip."),
            OpenApiParameter("to", KEY, description="The key that it ends before."),
            OpenApiParameter(
                "width",
                {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_BUCKETS,
                    "default": DEFAULT_WIDTH,
                },
                description="Buckets.",
            ),
        ],
        responses=RangeCoverageSerializer,
    )
    def get(self, request: Request, run_id: str) -> Response:
        """Read the range, or a part of it, in buckets of equal width.

        A run that is not planned yet has none (409).
        """
        refuse_unknown(request, ["from", "to", "width"])
        given = request.query_params
        run = _planned(run_id)
        width = _number(given.get("width"), "width", DEFAULT_WIDTH)
        with its_code(run.name):
            found = coverage(run, _key(given.get("from")), _key(given.get("to")), width)
        return Response(found)


class RangeNodeSerializer(serializers.Serializer[Any]):
    """A stored piece of the run: a strand with its cursor, or what was split off it."""

    id = serializers.IntegerField()
    parent = serializers.IntegerField(allow_null=True)
    kind = serializers.CharField()
    state = serializers.ChoiceField(choices=NODE_STATES)
    depth = serializers.IntegerField()
    lo = KeyField(allow_null=True)
    cur = KeyField(allow_null=True, help_text="Up to where it is done.")
    hi = KeyField(allow_null=True)
    rows_ok = serializers.IntegerField()
    rows_failed = serializers.IntegerField()
    leaves = serializers.IntegerField()
    retries = serializers.IntegerField()
    attempts = serializers.IntegerField(help_text="Failed ones of the leaf at work.")
    seconds_per_row = serializers.FloatField(allow_null=True)
    error = serializers.CharField(allow_null=True)
    hidden = HIDDEN
    created_at = MomentField()
    finished_at = MomentField(allow_null=True)


class NodePagination(KeysetPagination):
    """In the order they were made."""

    def read(self, run: RangeRun, request: Request) -> list[dict[str, Any]]:
        self.request = request
        limit = read_number(request.query_params.get(LIMIT), LIMIT, DEFAULT_LIMIT, LARGEST_LIMIT)
        found = lineage(run, after=self._after(request), limit=limit + 1)
        self.more = len(found) > limit
        found = found[:limit]
        self.last = found[-1]["id"] if found else None
        return found

    def _after(self, request: Request) -> int:
        cursor = request.query_params.get(CURSOR)
        if not cursor:
            return 0
        direction, place = read_cursor(cursor)
        if direction != "n" or not place.isdecimal() or len(place) > 18:
            raise InvalidInput("is not a cursor of this list", field=CURSOR)
        return int(place)


class NodesView(CoppiceView):
    needs: ClassVar = {"GET": permissions.VIEW}
    queryset = RangeRun.objects.none()
    serializer_class: ClassVar[Any] = RangeNodeSerializer
    pagination_class: ClassVar[Any] = NodePagination

    @extend_schema(
        operation_id="list_range_run_nodes", tags=TAGS, responses=RangeNodeSerializer(many=True)
    )
    def get(self, request: Request, run_id: str) -> Response:
        """List the stored nodes in the order they were made, each with the one it was split off."""
        pages = NodePagination()
        refuse_unknown(request, pages.names)
        run = find(run_id)
        with its_code(run.name):
            nodes = pages.read(run, request)
        for node in nodes:
            hides = bool(node["error"]) and not self.reader.reads
            node["hidden"] = ["error"] if hides else []
            node["error"] = None if hides else clean(node["error"], ERROR_LENGTH)
        return pages.get_paginated_response(nodes)


def _planned(run_id: str) -> RangeRun:
    run = find(run_id)
    if None in bounds_of(run):
        raise Conflict(f"run {run.id} is not planned yet: it has no range")
    return run


def _key(text: str | None) -> str | None:
    return text if text != "" else None


def _number(text: str | None, name: str, default: int) -> int:
    """Its bounds are checked further in."""
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS):
        raise InvalidInput("must be a whole number", field=name)
    return int(text)
