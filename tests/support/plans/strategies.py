"""Hypothesis strategies for plans and their parts; every module's property tests draw from here.

A plan has some fifty texts. Each is one draw from a pool of texts: text that hypothesis puts together is ten,
and drawing plans would take longer than testing with them. Text on its own is drawn with `hostile_text`.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kafkaform.core.model import (
    CONFIG_PREFIX,
    SAFE,
    Change,
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Location,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import (
    AffectedConsumer,
    ChangeOrigin,
    Consent,
    Plan,
    PlannedChange,
    UndeclaredConfig,
)
from kafkaform.core.values import replace
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.resources.values import fields_of
from tests.support.builds import builds

T = TypeVar("T")

BLOCK_STARTS = (
    *("|", "| a | b |", "| --- |", "--- | ---", ":--", "---", "- - -", "===", "=", "-", "+", "*", "* * *"),
    *("***", "___", "1.", "1)", "123456789.", "#", "######", ">", "~~~", "```", "    ", "\t", "\\", "…"),
    *("- [ ]", "[ ]", "[a]: /x", "[^1]", "[^1]: a", "$$", "&#35;"),
    *("<div>", "<!--", "<?", "<script>", "<a>", "</details>"),
)
"""What starts or continues a block of Markdown at the start of a line."""

# What breaks terminals, Markdown, HTML, JSON and shells, as single bites.
HOSTILE = (
    *("\x1b[2J\x1b[31m", "\x9b31m", "\r\n", "\n\n# heading\n", "\u2028", "\u202e", "\u200b", "\x00"),
    *("\x7f", "|", "\\|", "`", "``` ", "\n```\n", "<img src=x onerror=alert(1)>", "</details>"),
    *("</code></summary>", "<!--", "-->", "&lt;", "&#64;", "@octocat", "#123", "octo/repo#1", "GH-12"),
    *("deadbeefcafe", "https://evil.example/x", "www.evil.example", "a@b.example"),
    *("[a](http://evil.example)", "![a](x)", "**b**", "__b__", "~~s~~", ":tada:", "$(rm -rf /)", "'", '"'),
    *("\\", "$x$", "---", "- ", "+ ", "1. ", "> ", "[bold red]", ":warning:", "null", "日本", "\U0001f600"),
    *("\ud800"),
    *BLOCK_STARTS,
)

_WORDS = ("orders", " ", "7d", ".")
_NAME = "abcxyzABCXYZ0189._-"

CONFIG_KEYS = (
    *("cleanup.policy", "max.message.bytes", "min.insync.replicas", "retention.bytes", "retention.ms"),
    *("segment.bytes", "vendor.key"),
)
HAZARDS = ("retention-cut", "delete", "partition-increase", "policy-change")


def examples(share: float) -> settings:
    """So many times the examples of the profile: what needs more of them by day draws more at night too."""
    return settings(max_examples=round(share * settings().max_examples))


@cache
def hostile_text(*, min_size: int = 0, max_size: int = 6) -> SearchStrategy[str]:
    """Text of harmless words and of everything known to break an output."""
    bites = st.sampled_from(HOSTILE) | st.text(max_size=8) | st.sampled_from(_WORDS)
    return (
        st.lists(bites, min_size=min_size, max_size=max_size)
        .map("".join)
        .filter(lambda text: len(text) >= min_size)
    )


def _hostile_texts(mixed: int = 2_000) -> tuple[str, ...]:
    """Each bite alone, each beside each, and mixtures of up to six with any characters; the short first."""
    chance = random.Random(0)

    def bite() -> str:
        anything = (chr(chance.randrange(chance.choice((0x100, 0x3000, 0x110000)))) for _ in range(8))
        return chance.choice(
            (chance.choice(HOSTILE), chance.choice(_WORDS), "".join(anything)[: chance.randint(1, 8)])
        )

    found = {"", *_WORDS, *HOSTILE, *map("".join, product(HOSTILE, repeat=2))}
    found |= {"".join(bite() for _ in range(chance.randint(1, 6))) for _ in range(mixed)}
    return tuple(sorted(found, key=lambda text: (len(text), text)))


def _one_of(texts: Sequence[str]) -> SearchStrategy[str]:
    """One of them by its place: `sampled_from` shows all that it has in its `repr`."""
    return st.integers(0, len(texts) - 1).map(lambda place: texts[place])


def _some_of(letters: str, least: int, most: int, count: int = 300) -> SearchStrategy[str]:
    """Words of these letters, one draw each; the short first."""
    chance = random.Random(letters)
    found = {"".join(chance.choices(letters, k=chance.randint(least, most))) for _ in range(count)}
    found |= {letter * size for letter in letters for size in (least, most)}
    return _one_of(sorted(found, key=lambda text: (len(text), text)))


HOSTILE_TEXTS = _hostile_texts()
# Halves of surrogate pairs are in no manifest and no answer of a broker, and readers of plans refuse them.
_ENCODABLE = tuple(
    text for text in HOSTILE_TEXTS if text.isascii() or text == text.encode(errors="replace").decode()
)
_hostile = _one_of(_ENCODABLE)
_hostile_something = _one_of(_ENCODABLE[1:])
_perhaps_hostile = st.none() | _hostile
_legal_names = _some_of(_NAME, 1, 40)
_ids = _some_of("abyzABYZ0189_-", 22, 22)
_files = _some_of("abcxyz", 1, 10).map("topics/{}.yaml".format)
_configs = (st.sampled_from(CONFIG_KEYS) | _hostile_something).map(lambda key: CONFIG_PREFIX + key)
_paths = st.sampled_from(("partitions", "replicationFactor")) | _configs
_values = st.none() | st.integers(-(2**63), 2**63) | st.integers().map(str) | _hostile
_risks = st.sampled_from(Risk)
_origins = st.sampled_from((None, ChangeOrigin.BRANCH, ChangeOrigin.DRIFT, ChangeOrigin.MIXED))
_hazards = st.sampled_from(HAZARDS) | _hostile


def names() -> SearchStrategy[str]:
    """Resource names: those that Kafka allows, and hostile ones."""
    return _legal_names | _hostile_something


def refs() -> SearchStrategy[ResourceRef]:
    return builds(ResourceRef, st.sampled_from(("Topic", "ConsumerGroup")), names())


def locations(*, columns: bool = False) -> SearchStrategy[Location]:
    """Places in manifests; in column 1 unless `columns`."""
    return builds(
        Location,
        _files | _hostile_something,
        st.integers(1, 10_000),
        st.integers(1, 200) if columns else st.just(1),
    )


def values() -> SearchStrategy[FieldValue]:
    """Counts, config strings (also "" and "null") and unset."""
    return _values


def paths() -> SearchStrategy[str]:
    """Paths of managed fields."""
    return _paths


def states() -> SearchStrategy[dict[str, FieldValue]]:
    """The managed fields of one resource."""
    return st.dictionaries(_paths, _values, max_size=6)


@st.composite
def assessments(draw: DrawFn) -> RiskAssessment:
    """Safe, or of any risk with a hazard, a reason and perhaps a remedy."""
    risk = draw(_risks)
    if risk is Risk.SAFE and draw(st.booleans()):
        return SAFE
    return RiskAssessment(risk, draw(_hazards), draw(_hostile), draw(_perhaps_hostile))


def field_changes() -> SearchStrategy[FieldChange]:
    """One field of an update."""
    return builds(
        FieldChange,
        path=_paths,
        before=_values,
        after=_values,
        effective_before=_values,
        effective_after=_values,
        assessment=assessments(),
        deferred=_perhaps_hostile,
    )


def changes() -> SearchStrategy[Change]:
    """Creates, updates and deletes."""
    uids = st.none() | _ids
    fields = st.lists(field_changes(), min_size=1, max_size=4, unique_by=lambda f: f.path).map(tuple)
    return st.one_of(
        builds(Create, refs(), states(), assessments()),
        builds(Update, refs(), uids, fields),
        builds(Delete, refs(), uids, states(), assessments()),
    )


def planned_changes(*, columns: bool = False) -> SearchStrategy[PlannedChange]:
    """Changes of any status and origin."""
    planned = builds(
        PlannedChange,
        changes(),
        st.sampled_from(Status),
        st.none() | locations(columns=columns),
        _perhaps_hostile,
        _perhaps_hostile,
        team=st.just("") | _hostile,
    )
    return planned.flatmap(_draw_origin)


@st.composite
def _draw_origin(draw: DrawFn, planned: PlannedChange) -> PlannedChange:
    fields = [field.path for field in fields_of(planned.change)]
    origin = draw(_origins)
    if origin is not ChangeOrigin.MIXED:
        return replace(planned, origin=origin)
    if not fields:
        return planned
    count = draw(st.integers(1, len(fields)))
    first = draw(st.integers(0, len(fields) - 1))
    return replace(planned, origin=origin, earlier=tuple((fields * 2)[first : first + count]))


def diagnostics(*, columns: bool = False) -> SearchStrategy[Diagnostic]:
    return builds(
        Diagnostic,
        st.integers(0, 999).map("KF{:03}".format),
        st.sampled_from(Severity),
        _hostile,
        st.none() | locations(columns=columns),
        _perhaps_hostile,
        ref=st.none() | refs(),
    )


def _sorted_tuple(
    items: SearchStrategy[T], *, max_size: int, key: Callable[[T], object]
) -> SearchStrategy[tuple[T, ...]]:
    return st.lists(items, max_size=max_size, unique_by=key).map(lambda found: tuple(sorted(found, key=key)))  # type: ignore[arg-type]


@cache
def plans(*, columns: bool = False, max_changes: int = 6) -> SearchStrategy[Plan]:
    """Whole plans in the stable order of the planner.

    Args:
        columns: Locations have columns other than 1, which a saved plan does not keep.
        max_changes: The most changes in one plan.
    """
    return builds(
        Plan,
        cluster_id=_ids | _hostile,
        changes=_sorted_tuple(planned_changes(columns=columns), max_size=max_changes, key=lambda c: c.ref),
        unchanged=st.integers(0, 10_000),
        unmanaged=_sorted_tuple(refs(), max_size=4, key=lambda r: r),
        undeclared=_sorted_tuple(
            builds(UndeclaredConfig, refs(), _paths, _hostile), max_size=4, key=lambda u: u
        ),
        consents=_sorted_tuple(
            builds(Consent, refs().map(str), st.sampled_from(HAZARDS), _hostile), max_size=3, key=lambda c: c
        ),
        diagnostics=st.lists(diagnostics(columns=columns), max_size=3).map(tuple),
        broker_validated=st.booleans(),
        unknown=_sorted_tuple(refs(), max_size=3, key=lambda r: r),
        readers=_sorted_tuple(
            builds(
                AffectedConsumer, refs(), st.lists(_hostile, max_size=2).map(tuple), st.just("") | _hostile
            ),
            max_size=3,
            key=lambda r: r.ref,
        ),
    )


def headers() -> SearchStrategy[PlanHeader]:
    """Return the provenance of a saved plan."""
    return builds(
        PlanHeader,
        tool_version=st.just("0.1.0") | _hostile,
        commit=st.none() | _some_of("0123456789abcdef", 40, 40) | _hostile,
        cluster_name=st.none() | st.just("prod") | _hostile,
        environment=st.none() | st.just("prod") | _hostile,
        created_at=st.datetimes().map(lambda d: d.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + "Z"),
    )
