"""What every view has in common: who may ask, how much, in which forms, and how errors are answered.

A view names the permission of each of its methods; a method without one is refused to all, and one
that it does not have is answered with 405.

    class JobsView(CoppiceView):
        needs = {"GET": permissions.VIEW, "POST": permissions.CREATE}

These classes do not rely on the project's `REST_FRAMEWORK`: they behave alike in every project.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import HttpResponseBase
from django.utils.functional import cached_property
from rest_framework import serializers
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import APIException, ParseError, PermissionDenied
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import BasePermission
from rest_framework.renderers import BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from jobs import masking
from jobs.api.authentication import TokenAuthentication
from jobs.api.bounds import BoundedJSONParser, TooLarge, UserRateThrottle
from jobs.api.idempotency import once
from jobs.api.schema import CoppiceSchema, use_for
from jobs.errors import Conflict, InvalidInput, NotFound, TooBroad, TryLater
from jobs.filtering import Filters
from jobs.masking import Reader
from jobs.security import csp
from jobs.texts import clean

FIELD_LENGTH = 300
TEXT_LENGTH = 2_000


class Permitted(BasePermission):
    """The permission that the view names for the method."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        user = request.user
        if not user or not user.is_authenticated:
            return False
        method = request.method or ""
        if method == "OPTIONS" or not hasattr(view, method.lower()):
            return True
        needed = getattr(view, "needs", {}).get("GET" if method == "HEAD" else method)
        return bool(needed and user.has_perm(needed))


class NothingSerializer(serializers.Serializer[Any]):
    """No fields."""


class CoppiceView(GenericAPIView):
    """The base of all views."""

    needs: ClassVar[dict[str, str]] = {}
    """The permission for each method: `permissions.*`."""

    authentication_classes: ClassVar = [TokenAuthentication, SessionAuthentication]
    permission_classes: ClassVar = [Permitted]
    parser_classes: ClassVar = [BoundedJSONParser]
    renderer_classes: ClassVar = [JSONRenderer, BrowsableAPIRenderer]
    throttle_classes: ClassVar = [UserRateThrottle]
    filter_backends: ClassVar[list[Any]] = []
    versioning_class = None
    serializer_class: ClassVar[Any] = NothingSerializer
    """Also asked for by OPTIONS and the browsable API."""
    schema = CoppiceSchema()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        use_for(cls)

    @property
    def actor(self) -> str:
        """The name for logs and audit."""
        return str(self.request.user.get_username())

    @cached_property
    def reader(self) -> Reader:
        """What the user may see of payloads, results and errors."""
        return masking.reader(self.request.user)

    def may(self, permission: str) -> bool:
        return bool(self.request.user.has_perm(permission))

    def check_search(self, filters: Filters) -> None:
        """Raises PermissionDenied where an answer would tell what the user may not read."""
        refusal = self.reader.refusal(payload=filters.payload, error=filters.error)
        if refusal:
            names = [name for name in ("payload", "error") if getattr(filters, name) is not None]
            raise PermissionDenied(f"{' and '.join(names)}: {refusal}")

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method == "POST" and hasattr(self, "post"):
            # What dispatch calls next: every POST honours `Idempotency-Key`.
            work: Callable[..., Response] = self.post  # type: ignore[has-type]
            self.post = lambda *args, **kwargs: once(request, lambda: work(*args, **kwargs))

    def finalize_response(
        self, request: Request, response: HttpResponseBase, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.headers.setdefault("Cache-Control", "no-store")
        if isinstance(getattr(request, "accepted_renderer", None), BrowsableAPIRenderer):
            csp.relax(response, csp.BROWSABLE_API)
        return response

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response | None]:
        return answer_error


class Refused(APIException):
    """400 with the shape of DRF's own validation errors: `{"field": ["message"]}`."""

    status_code = 400


class Conflicting(APIException):
    status_code = 409
    default_code = "conflict"


class Missing(APIException):
    status_code = 404
    default_code = "not_found"


class Unavailable(APIException):
    status_code = 503
    default_code = "unavailable"
    default_detail = "The database cannot be reached just now; nothing was changed."


def answer_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """The answer to an error; None for a fault of ours, which becomes a 500."""
    return exception_handler(_as_api_error(error), context)


def _as_api_error(error: Exception) -> Exception:
    found: Exception = error
    match error:
        case InvalidInput():
            found = Refused(_detail(error))
        case NotFound():
            found = Missing(f"No such {error.what}.")
        case Conflict():
            found = Conflicting(clean(str(error), TEXT_LENGTH))
        case TryLater() | OperationalError() | InterfaceError():
            found = Unavailable()
        case RequestDataTooBig():
            found = TooLarge()
        case BadRequest() | SuspiciousOperation() | UnicodeDecodeError():
            found = ParseError()
    return found


def _detail(error: InvalidInput) -> dict[str, Any]:
    # Both may quote the request, which may hold what no answer can.
    found: dict[str, Any] = {clean(error.field, FIELD_LENGTH): [clean(error.message, TEXT_LENGTH)]}
    if isinstance(error, TooBroad):
        found["code"] = "too_broad"
    return {"jobs": {str(error.index): found}} if error.index is not None else found
