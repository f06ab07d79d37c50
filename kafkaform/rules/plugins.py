"""Rules of other distributions: entry points of the group `kafkaform.rules`.

An entry point is a module that registers rules with `kafkaform.rules.rule` when it is imported, or a function
that does so when it is called. The failure of one is an error that names its distribution: a check that is
silently skipped would look like a check without findings.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from functools import cache, wraps
from importlib.machinery import PathFinder
from inspect import getdoc
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError
from kafkaform.core.values import replace
from kafkaform.rules.catalogue import RULES, Check, Finding, RuleContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint

GROUP = "kafkaform.rules"
CODE = re.compile(r"(?!KF)[A-Z][A-Z0-9]*-?[0-9]+")
"""The codes that plug-ins may use; those of kafkaform begin with KF."""


class PluginFailed(KafkaformError):  # noqa: N818 - like its siblings
    """A plug-in cannot be loaded, registers invalid rules, or failed in a check."""


@cache
def load() -> Mapping[str, str]:
    """Add the rules of every installed plug-in to the catalogue, once.

    Returns:
        The distribution of each of their codes.

    Raises:
        PluginFailed: A plug-in cannot be used.
    """
    if not _may_be_installed():
        return {}
    from importlib.metadata import entry_points

    sources: dict[str, str] = {}
    # Sorted, so that of two plug-ins with the same code, it is always the same one that is refused.
    for point in sorted(entry_points(group=GROUP), key=lambda point: (_source(point), point.name)):
        # All or nothing: after an error, `cache` runs this again, and a rule that was left would be a
        # duplicate.
        before = dict(RULES)
        try:
            _register(point)
            for code in RULES.keys() - before.keys():
                sources[code] = _source(point)
                # The errors of the check name its distribution.
                check = _guard_check(code, RULES[code].check, sources[code])
                RULES[code] = replace(RULES[code], check=check)
        except PluginFailed:
            RULES.clear()
            RULES.update(before)
            raise
    return sources


def _may_be_installed() -> bool:
    """Return whether a distribution on the path may have entry points of the group.

    importlib.metadata takes 8 ms to import, so only folders are searched here. If the path has an archive, or
    there is another finder that may find distributions, importlib.metadata has to decide.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    for folder in sys.path:
        if os.path.isfile(folder):  # noqa: PTH113 - a path object for each would cost what this saves
            return True
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.lower().endswith(("dist-info", "egg-info")) and _names_group(entry.path):
                    return True
    return False


def _names_group(info: str) -> bool:
    try:
        with open(f"{info}/entry_points.txt", "rb") as file:  # noqa: PTH123 - as above
            return GROUP.encode() in file.read()
    except OSError:
        return os.path.isfile(info)  # noqa: PTH113 - an egg that is one file


def _source(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def _register(point: EntryPoint) -> None:
    before = set(RULES)
    try:
        loaded = point.load()
        if callable(loaded):
            loaded()
    # A plug-in is third-party code: it may raise anything, and may call sys.exit().
    except (Exception, SystemExit) as error:
        raise _plugin_error(
            _source(point), f"its entry point {point.name} cannot be loaded", error
        ) from error
    added = RULES.keys() - before
    if not added:
        raise _plugin_error(_source(point), f"its entry point {point.name} registers no rule")
    for code in sorted(added):
        if not CODE.fullmatch(code):
            message = (
                f"{code!r} is not a valid code for a plug-in: write capitals and a number, such as ACME-1"
            )
            raise _plugin_error(_source(point), f"{message}; KF is kafkaform's own")
        if not (getdoc(RULES[code].check) or "").strip():
            raise _plugin_error(
                _source(point), f"its rule {code} has no docstring, which is what explains it"
            )


def _guard_check(code: str, check: Check, source: str) -> Check:
    @wraps(check)
    def run_check(context: RuleContext) -> Iterable[Finding]:
        try:
            # Consumed here, as a generator raises its errors only when it is iterated.
            results = list(check(context))
        except (Exception, SystemExit) as error:
            raise _plugin_error(source, f"its rule {code} failed", error) from error
        return list(_check_findings(results, code, source))

    return run_check


def _check_findings(results: Sequence[object], code: str, source: str) -> Iterator[Finding]:
    for finding in results:
        if not isinstance(finding, Finding):
            message = f"its rule {code} yields {type(finding).__name__}, not kafkaform.rules.Finding"
            raise _plugin_error(source, message)
        yield finding


def _plugin_error(source: str, message: str, error: BaseException | None = None) -> PluginFailed:
    cause = ""
    if error is not None:
        text = " ".join(str(error).split())
        cause = f": {type(error).__name__}: {text}" if text else f": {type(error).__name__}"
    return PluginFailed(
        f"plug-in {source}: {message}{cause}", hint="fix it, or uninstall it; --debug shows the traceback"
    )
