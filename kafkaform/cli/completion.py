"""Shell completion of names from the configuration and manifests, and of codes of rules.

Output would appear in the middle of the user's input, so nothing is printed or raised, whatever is wrong with
a file: the command reports that when it runs. No cluster is read.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.settings import Settings, find_settings
from kafkaform.core.model import ResourceRef
from kafkaform.core.wording import pluralize
from kafkaform.resources import KINDS, group_ref, topic_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import click

    from kafkaform.core.errors import Problem

    Source: TypeAlias = Callable[[click.Context, str], Iterable[str]]
    Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

_SHELL_WORD = re.compile(r"[A-Za-z0-9._/@%+=,-]+")
"""A plain word of a shell: other characters in a completed name might be executed."""


def _completion(source: Source) -> Completion:
    """Return a completion function for click from a function of the context and the first characters."""

    @functools.wraps(source)
    def complete(context: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            names = {name for name in source(context, incomplete) if name.startswith(incomplete)}
        except Exception:  # noqa: BLE001 - see above: nothing may be printed
            return []
        return sorted(filter(_SHELL_WORD.fullmatch, names))

    return complete


@_completion
def clusters(context: click.Context, _incomplete: str) -> Iterable[str]:
    """Return the clusters of the configuration."""
    return _settings(context).clusters


@_completion
def cluster_selectors(context: click.Context, _incomplete: str) -> Iterable[str]:
    """Return the clusters of the configuration, and their labels as LABEL=VALUE."""
    clusters = _settings(context).clusters
    return [*clusters, *(label for cluster in clusters.values() for label in cluster.selectors)]


@_completion
def environments(context: click.Context, _incomplete: str) -> Iterable[str]:
    """Return the environments of the configuration."""
    return _settings(context).environments or ()


@_completion
def sides(context: click.Context, _incomplete: str) -> Iterable[str]:
    """Return the sides of `compare`: clusters, or environments with --environments."""
    settings = _settings(context)
    return (settings.environments or ()) if context.params.get("environments") else settings.clusters


@_completion
def resources(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the declared resources, as KIND/NAME."""
    return map(str, _find_declared(context, incomplete.rpartition("/")[2]))


@_completion
def names(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the names of declared resources."""
    return (ref.name for ref in _find_declared(context, incomplete))


@_completion
def topics(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the names of declared topics."""
    return (ref.name for ref in _find_declared(context, incomplete) if ref == topic_ref(ref.name))


@_completion
def groups(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the names of declared groups."""
    return (ref.name for ref in _find_declared(context, incomplete) if ref == group_ref(ref.name))


@_completion
def kinds_and_resources(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the nouns of kinds, and the declared resources as KIND/NAME after a capital letter."""
    nouns = [noun for kind in KINDS.values() for noun in (kind.words.noun, pluralize(kind.words.noun))]
    declared = _find_declared(context, incomplete.rpartition("/")[2]) if incomplete[:1].isupper() else ()
    return [*nouns, *map(str, declared)]


@_completion
def resources_of_kind(context: click.Context, incomplete: str) -> Iterable[str]:
    """Return the names of the resources of the kind in the previous argument."""
    kind, _ = context.params.get("kind_or_resource") or (None, None)
    return (ref.name for ref in _find_declared(context, incomplete) if ref.kind == kind)


@_completion
def codes(context: click.Context, _incomplete: str) -> Iterable[str]:
    """Return the codes of rules, notes and the project's policies."""
    from kafkaform.rules import list_entries

    return [*list_entries(), *(policy.code for policy in _settings(context).policies)]


@_completion
def health_codes(_context: click.Context, _incomplete: str) -> Iterable[str]:
    """Return the codes of health rules."""
    from kafkaform.rules import Rule, Stage, list_entries

    return [
        code for code, rule in list_entries().items() if isinstance(rule, Rule) and rule.stage is Stage.HEALTH
    ]


def _settings(context: click.Context) -> Settings:
    """Return the configuration that the command would read."""
    given = context.params
    return find_settings(given.get("config_file"), untrusted=given.get("manifests_from"))


def _find_declared(context: click.Context, start: str) -> Iterator[ResourceRef]:
    """Yield the resource of every manifest, valid or not, in files that contain the characters."""
    from kafkaform.config.manifests.files import find_manifest_files, read_bytes
    from kafkaform.config.manifests.loader import VERBATIM
    from kafkaform.config.manifests.yaml12 import read_documents

    ignored: list[Problem] = []
    for file in find_manifest_files(_settings(context).manifests, ignored):
        raw = read_bytes(file, ignored)
        if raw is None or start.encode() not in raw:
            continue  # skips the parsing of most files, which takes the time
        for document in read_documents(raw, str(file), ignored.append, verbatim=VERBATIM):
            match document.data:
                case {"kind": str(kind), "metadata": {"name": str(name)}}:
                    yield ResourceRef(kind, name)
                case _:
                    pass  # not a complete manifest
