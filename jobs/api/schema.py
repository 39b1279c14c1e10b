"""The API's document: what every operation has in common. `document.py` has its title page.

A view needs nothing of its own here: permissions, errors and names follow from it. What it answers
is said with `extend_schema` at the method.
"""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS
from rest_framework.views import APIView

IDEMPOTENCY_KEY = OpenApiParameter(
    name="Idempotency-Key",
    location=OpenApiParameter.HEADER,
    type={"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[!-~]+$"},
    description=(
        "Makes it safe to send the request again: for 24 hours the same key is answered with the "
        "same answer, and nothing is done twice. The same key with another request is refused (409)."
    ),
)
REASON = OpenApiParameter(
    name="reason",
    location=OpenApiParameter.QUERY,
    type={"type": "string", "maxLength": 1000},
    description="Why, for the log and the audit.",
)

REFUSED = OpenApiResponse(
    response={
        "type": "object",
        "description": "`detail` for the whole request, else messages by the name of the field.",
        "additionalProperties": {},
    },
    description="Something in the request is wrong; nothing was changed.",
)


class ErrorSerializer(serializers.Serializer[Any]):
    """Why a request was not answered."""

    detail = serializers.CharField()


SAID = {
    401: "Nobody has signed in, or the token is unknown, expired or revoked.",
    403: "The permission is missing, or the CSRF token.",
    404: "There is no such thing.",
    406: "No form that `Accept` names can be given.",
    409: "It is not in a state in which this can be done, or the `Idempotency-Key` was used for "
    "another request; nothing was changed.",
    413: "The body is too large.",
    415: "The body must be JSON.",
    429: "Too many requests; `Retry-After` says for how long to wait.",
    503: "The database cannot be reached just now.",
}
HTTP_METHOD_NAMES = APIView.http_method_names
EVERYWHERE = (401, 403, 406, 429, 503)


class CoppiceSchema(AutoSchema):
    def get_operation_id(self) -> str:
        """Unique also where one path goes on where another ends: jobs_get, jobs_one_get."""
        path = re.sub(self.path_prefix, "", self.path, flags=re.IGNORECASE)
        words = re.sub(r"\{[^}]*\}", "one", path).replace("-", "_").strip("/").split("/")
        return "_".join([*words, self.method.lower()])

    def get_description(self) -> str:
        text = super().get_description() or ""
        needed = getattr(self.view, "needs", {}).get(self.method)
        return f"{text}\n\nNeeds the permission `{needed}`.".strip() if needed else text

    def get_override_parameters(self) -> list[Any]:
        return [IDEMPOTENCY_KEY] if self.method == "POST" else []

    def _resolve_path_parameters(self, variables: Any) -> Any:
        found = super()._resolve_path_parameters(variables)  # type: ignore[no-untyped-call]
        for parameter in found:
            if parameter["name"].endswith("_id"):
                parameter["schema"] = {"type": "string", "format": "uuid"}
        return found

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        found = super()._get_response_bodies(direction)
        errors = {
            code: OpenApiResponse(response=ErrorSerializer, description=SAID[code])
            for code in self._codes()
        }
        answer: Any = self._get_response_for_code
        for code, error in {400: REFUSED, **errors}.items():
            found.setdefault(str(code), answer(error, str(code), direction=direction))
        return dict(sorted(found.items()))

    def _codes(self) -> list[int]:
        codes = [*EVERYWHERE]
        if "{" in self.path:
            codes.append(404)
        if self.method not in SAFE_METHODS:
            codes.append(409)
        if self.method in {"POST", "PUT", "PATCH"}:
            codes += [413, 415]
        return codes


def use_for(view: type) -> None:
    """Put CoppiceSchema below what `extend_schema` made for the methods of a view.

    It builds on the schema class that the project names as its default, which may be any.
    """
    for name in HTTP_METHOD_NAMES:
        made = getattr(getattr(view, name, None), "kwargs", {}).get("schema")
        if made is None or issubclass(made, CoppiceSchema):
            continue
        while made.__bases__[0].__name__ == made.__name__:  # decorated more than once
            made = made.__bases__[0]
        made.__bases__ = (CoppiceSchema,)


class TokenExtension(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "jobs.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # noqa: ARG002
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token coppice_...`, a key that an administrator makes.",
        }
