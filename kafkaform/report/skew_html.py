"""The skew report as one HTML page that needs nothing but itself: no network, no script, no other file."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kafkaform.core.printable import clipped, in_code, printable
from kafkaform.core.wording import counted
from kafkaform.report import skew_values
from kafkaform.report.skew_topic_view import Detail, topic_view
from kafkaform.report.skew_trend import trends

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkaform.report.skew_trend import Trend
    from spark_validation.results import Estimate, Report, TopicResult

LIMIT = 1_000_000
"""The most bytes of a page."""
_LONGEST = 500
_MOST_LISTED = 1_000
_NOTE = 2_000
"""Bytes to keep free for what the page says of topics that it leaves out."""
_DETAILS = (
    Detail(columns=60, rows=200, keys=20, points=60, dots=15, by_bytes=True),
    Detail(columns=60, rows=40, keys=10, points=60, dots=15, by_bytes=True),
    Detail(columns=40, rows=0, keys=6, points=40, dots=8, by_bytes=True),
    Detail(columns=24, rows=0, keys=3, points=20, dots=1, by_bytes=False),
)
# The filters of templates that are worded as in every other format.
_WORDS = (
    "brief", "cause", "count", "headline", "moment", "numbers", "ratio", "share", "size", "summary", "verdict"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A topic in the index; `detailed` if the page has a part of it under the anchor."""

    topic: TopicResult
    anchor: str
    detailed: bool


def render_skew_html(report: Report, history: Sequence[Report] = ()) -> str:
    """The page of a report; earlier reports of the same cluster become each topic's trend.

    Topics come with the most skewed first, each in as much detail as fits for all of them into `LIMIT` bytes.
    Where the least detail is too much, the last topics are in the index alone, and the page says so.
    """
    topics = sorted(report.topics, key=skew_values.severity)
    css = _stylesheet()
    page = partial(
        _environment().get_template("page.html").render,
        report=report,
        css=Markup(css),  # noqa: S704 - ours
        policy=_policy(css),
        total=len(topics),
        verdicts=skew_values.VERDICTS,
    )
    # An index whose every topic has its link is the longest one.
    room = LIMIT - _NOTE - _size(page(entries=_entries(topics, len(topics)), sections=(), left_out=0))
    sections: list[Markup] = []
    for detail in _DETAILS:
        sections = list(_sections(topics, trends(report, history, detail.points), detail, room))
        if len(sections) == len(topics):
            break
    left_out = len(topics) - len(sections)
    return page(entries=_entries(topics, len(sections)), sections=sections, left_out=left_out)


def _entries(topics: Sequence[TopicResult], detailed: int) -> list[Entry]:
    return [
        Entry(topic, _anchor(number), number < detailed) for number, topic in enumerate(topics[:_MOST_LISTED])
    ]


def _sections(
    topics: Sequence[TopicResult], past: Mapping[str, Trend], detail: Detail, room: int
) -> Iterator[Markup]:
    """The topics' parts of the page, as many as there is room for in bytes."""
    template = _environment().get_template("topic.html")
    for number, topic in enumerate(topics):
        view = topic_view(topic, _anchor(number), past.get(topic.name), detail)
        text = template.render(view=view, spread_figures=skew_values.SPREAD_FIGURES)
        room -= _size(text)
        if room < 0:
            return
        yield Markup(text)  # noqa: S704 - a template's own output


def _anchor(number: int) -> str:
    return f"t{number}"


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("kafkaform", "templates/skew"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.tests["empty"] = skew_values.is_empty
    found.filters.update(
        {name: getattr(skew_values, name) for name in _WORDS},
        counted=counted,
        ends=_ends,
        place=_place,
        prose=_prose,
    )
    return found


def _shown(value: object) -> object:
    """Foreign text as everywhere else: in one line, of bounded length, with nothing invisible in it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clipped(value, _LONGEST) if len(value) > _LONGEST else printable(value)
    return value


def _prose(text: str) -> Markup:
    """A message, with its code as elements instead of between backticks."""
    pieces = in_code(clipped(text, _LONGEST))
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if code else piece for piece, code in pieces
    )


def _ends(estimate: Estimate, words: str) -> str:
    """An interval in one of our wordings, by its name."""
    return skew_values.interval(estimate, getattr(skew_values, words))


def _place(number: float) -> str:
    """A coordinate, as short as it can be."""
    return f"{number:.1f}".removesuffix(".0")


def _size(text: str) -> int:
    return len(text.encode())


@cache
def _stylesheet() -> str:
    return files("kafkaform").joinpath("templates", "skew", "page.css").read_text("utf-8")


def _policy(css: str) -> str:
    """A content security policy under which the page's own style works, and nothing else does."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
