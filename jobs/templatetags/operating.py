"""Small drawings beside numbers: `{% load operating %}`. Each is drawn by attributes, as the policy
forbids styles in a page; what it shows is said in words as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

BAR, GAP, HEIGHT = 3, 1, 16


@register.simple_tag
def spark(values: Sequence[float], label: str = "") -> SafeString:
    """How something goes: a line, the newest value on the right."""
    most = max([*values, 1])
    points = " ".join(
        f"{place} {HEIGHT - (HEIGHT - 1) * value / most:.4g}" for place, value in enumerate(values)
    )
    width = max(1, len(values) - 1)
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><path class="base" d="M0 {}h{}"></path>'
        '<path class="area" d="M0 {}L{}L{} {}z"></path><path class="line" d="M{}"></path></svg>',
        width,
        HEIGHT,
        label,
        HEIGHT,
        width,
        HEIGHT,
        points,
        width,
        HEIGHT,
        points,
    )


@register.simple_tag
def bars(values: Sequence[float], label: str = "", tone: str = "bad") -> SafeString:
    """How often something happened: a bar for each value, the newest on the right."""
    most = max([*values, 1])
    width = len(values) * (BAR + GAP)
    pieces = []
    for place, value in enumerate(values):
        if value:
            height = max(1.5, HEIGHT * value / most)
            pieces.append(f"M{place * (BAR + GAP)} {HEIGHT}v-{height:.4g}h{BAR}V{HEIGHT}z")
    return format_html(
        '<svg class="spark spark-{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><path class="base" d="M0 {}h{}"></path>'
        '<path class="bars" d="{}"></path></svg>',
        tone,
        width,
        HEIGHT,
        label,
        HEIGHT,
        width,
        "".join(pieces),
    )


@register.simple_tag
def gauge(part: float, whole: float, tone: str = "busy") -> SafeString:
    """How much of something is taken. The numbers stand beside it."""
    share = 0.0 if whole <= 0 else max(0.0, min(1.0, part / whole))
    return format_html(
        '<svg class="gauge gauge-{}" viewBox="0 0 100 6" preserveAspectRatio="none" '
        'aria-hidden="true"><rect class="bed" width="100" height="6"></rect>'
        '<rect class="fill" width="{}" height="6"></rect></svg>',
        tone,
        f"{100 * share:.4g}",
    )
