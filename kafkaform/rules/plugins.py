"""Rules that other distributions bring: entry points of the group `kafkaform.rules`.

An entry point names a module that registers rules with `kafkaform.rules.rule` when it is imported, or a
function that does so when it is called. One that fails is an error that names its distribution: a check
that is silently left out would look like a check that found nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, wraps
from inspect import getdoc
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.rules.catalogue import RULES, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

    from kafkaform.rules.catalogue import Check, Rule, RuleContext

GROUP = "kafkaform.rules"
CODE = re.compile(r"(?!KF)[A-Z][A-Z0-9]*-?[0-9]+")
"""The codes that plug-ins may use; those of kafkaform begin with KF."""


class PluginFailed(KafkaformError):  # noqa: N818 - like its siblings
    """A plug-in cannot be loaded, breaks the rules for rules, or broke down while checking."""


@cache
def load() -> Mapping[str, str]:
    """Add the rules of every installed plug-in to the catalogue, once.

    Returns:
        The distribution that each of their codes comes from.

    Raises:
        PluginFailed: One of them cannot be used.
    """
    from importlib.metadata import entry_points

    sources: dict[str, str] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (_source(point), point.name)):
        before = dict(RULES)
        try:
            _register(point)
            for code in RULES.keys() - before.keys():
                RULES[code] = _guarded(RULES[code], _source(point))
                sources[code] = _source(point)
        except PluginFailed:
            RULES.clear()
            RULES.update(before)
            raise
    return sources


def _source(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _register(point: EntryPoint) -> None:
    before = set(RULES)
    try:
        loaded = point.load()
        if callable(loaded):
            loaded()
    # A plug-in is foreign code: it may fail in any way, even by ending the process.
    except (Exception, SystemExit) as error:
        raise _failed(_source(point), f"its entry point {point.name} cannot be loaded", error) from error
    added = RULES.keys() - before
    if not added:
        raise _failed(_source(point), f"its entry point {point.name} registers no rule")
    for code in sorted(added):
        if not CODE.fullmatch(code):
            message = (
                f"{code!r} is not a valid code for a plug-in: write capitals and a number, such as ACME-1"
            )
            raise _failed(_source(point), f"{message}; KF is kafkaform's own")
        if not (getdoc(RULES[code].check) or "").strip():
            raise _failed(_source(point), f"its rule {code} has no docstring, which is what explains it")


def _guarded(rule: Rule, source: str) -> Rule:
    """The rule, with a check that names its distribution when it breaks down."""
    return replace(rule, check=_guarded_check(rule.code, rule.check, source))


def _guarded_check(code: str, check: Check, source: str) -> Check:
    @wraps(check)
    def guarded(context: RuleContext) -> Iterable[Finding]:
        try:
            found = list(check(context))
        except (Exception, SystemExit) as error:
            raise _failed(source, f"its rule {code} broke down", error) from error
        return list(_findings(found, code, source))

    return guarded


def _findings(found: Sequence[object], code: str, source: str) -> Iterator[Finding]:
    for finding in found:
        if not isinstance(finding, Finding):
            message = f"its rule {code} yields {type(finding).__name__}, not kafkaform.rules.Finding"
            raise _failed(source, message)
        yield finding


def _failed(source: str, message: str, error: BaseException | None = None) -> PluginFailed:
    cause = ""
    if error is not None:
        text = " ".join(str(error).split())
        cause = f": {type(error).__name__}: {text}" if text else f": {type(error).__name__}"
    return PluginFailed(
        f"plug-in {source}: {message}{cause}", hint="fix it, or uninstall it; --debug shows the traceback"
    )
