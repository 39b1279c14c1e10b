"""The API's document and Swagger UI, for those who are signed in and may see jobs.

Both come from this server alone: the UI's files are static files of a package.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.templatetags.static import static
from django.urls import path
from django.utils.decorators import method_decorator
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.authentication import SessionAuthentication
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import permissions
from jobs.api.authentication import TokenAuthentication
from jobs.api.base import CoppiceView, Permitted, answer_error
from jobs.api.document import SETTINGS
from jobs.api.filters import refuse_unknown
from jobs.security import csp

DOCUMENT = "coppice-api-document"


class Endpoints(EndpointEnumerator):
    """The routes of this product, wherever the project has them, and nobody else's."""

    def should_include_endpoint(self, path: str, callback: Any) -> bool:
        ours = isinstance(getattr(callback, "cls", None), type) and issubclass(
            callback.cls, CoppiceView
        )
        return ours and bool(super().should_include_endpoint(path, callback))


class Generator(SchemaGenerator):
    endpoint_inspector_cls = Endpoints


class _Shown:
    """As for the API's own views."""

    needs: ClassVar = {"GET": permissions.VIEW}
    authentication_classes: ClassVar = [TokenAuthentication, SessionAuthentication]
    permission_classes: ClassVar = [Permitted]

    def get_exception_handler(self) -> Any:
        return answer_error


class DocumentView(_Shown, SpectacularAPIView):
    """`/api-docs.json`: OpenAPI 3."""

    renderer_classes: Any = [JSONRenderer]
    generator_class: type[SchemaGenerator] = Generator
    custom_settings: dict[str, Any] | None = SETTINGS

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        refuse_unknown(request)
        shown: Any = super()
        found: Response = shown.get(request, *args, **kwargs)
        return found

    def _get_version_parameter(self, request: Request) -> None:
        """There is one version; what the request says would become part of a header."""


@method_decorator(csp.relaxed(csp.SWAGGER_UI), name="dispatch")
class SwaggerView(_Shown, SpectacularSwaggerSplitView):
    """`/api-docs`"""

    http_method_names: ClassVar = ["get", "head"]
    url_name = DOCUMENT
    title = SETTINGS["TITLE"]

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        refuse_unknown(request, ["script"])
        shown: Any = super()
        found: Response = shown.get(request, *args, **kwargs)
        return found

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated and "Authorization" not in request.headers:
            return redirect_to_login(request.get_full_path())
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    @staticmethod
    def _swagger_ui_resource(filename: str) -> str:
        return static(f"drf_spectacular_sidecar/swagger-ui-dist/{filename}")

    @staticmethod
    def _swagger_ui_favicon() -> str:
        return SwaggerView._swagger_ui_resource("favicon-32x32.png")


urlpatterns = [
    path("api-docs", SwaggerView.as_view(), name="coppice-api-docs"),
    path("api-docs.json", DocumentView.as_view(), name=DOCUMENT),
]
