"""The Content-Security-Policy: nothing but what is named, and nothing inline.

`STRICT` is for every page. The two exceptions are for pages that others have written, with style
attributes of their own; scripts stay as strict there.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase
from django.utils.csp import CSP
from django.views.decorators.csp import csp_override

type Policy = dict[str, list[str]]

STRICT: Policy = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF, CSP.NONCE],
    "style-src": [CSP.SELF, CSP.NONCE],
    "img-src": [CSP.SELF],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
}

_STYLED: Policy = {
    **STRICT,
    "script-src": [CSP.SELF],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
}
BROWSABLE_API = _STYLED
"""REST framework's own pages."""
SWAGGER_UI: Policy = {**_STYLED, "img-src": [CSP.SELF, "data:"]}
"""Swagger UI, whose icons are `data:` pictures."""


def relax[R: HttpResponseBase](response: R, policy: Policy) -> R:
    """Give this one response another policy."""
    csp_override(policy)(lambda _: response)(None)
    return response


def relaxed(policy: Policy) -> Any:
    """A decorator for a view that has another policy."""
    return csp_override(policy)
