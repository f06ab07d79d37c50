"""What a shell completes: names from the repository's configuration and manifests, and codes of rules.

A shell shows whatever comes out here in the middle of what somebody types. So nothing is printed or raised,
whatever is wrong with a file: the command tells that when it runs. No cluster is asked.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.config.settings import find_settings
from kafkaform.core.model import ResourceRef
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group import is_group
from kafkaform.resources.topic import is_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import click

    from kafkaform.config.settings import Settings
    from kafkaform.core.errors import Problem

    Source: TypeAlias = Callable[[click.Context, str], Iterable[str]]
    Completion: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]

_PLAIN = re.compile(r"[A-Za-z0-9._/@%+=,-]+")
"""What a shell takes for one plain word: anything else in a name might be run when it is completed."""


def _completion(source: Source) -> Completion:
    """What click calls to complete a value, from a source that gets the context and the first characters."""

    @functools.wraps(source)
    def complete(context: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        try:
            names = {name for name in source(context, incomplete) if name.startswith(incomplete)}
        except Exception:  # noqa: BLE001 - see above: there is nobody to tell
            return []
        return sorted(filter(_PLAIN.fullmatch, names))

    return complete


@_completion
def clusters(context: click.Context, _incomplete: str) -> Iterable[str]:
    """The clusters of the configuration."""
    return _settings(context).clusters


@_completion
def environments(context: click.Context, _incomplete: str) -> Iterable[str]:
    """The environments of the configuration."""
    return _settings(context).environments or ()


@_completion
def sides(context: click.Context, _incomplete: str) -> Iterable[str]:
    """What `compare` compares: clusters, or environments with that option."""
    settings = _settings(context)
    return (settings.environments or ()) if context.params.get("environments") else settings.clusters


@_completion
def resources(context: click.Context, incomplete: str) -> Iterable[str]:
    """The declared resources, as KIND/NAME."""
    return map(str, _declared(context, incomplete.rpartition("/")[2]))


@_completion
def names(context: click.Context, incomplete: str) -> Iterable[str]:
    """The names of declared topics and groups."""
    return (ref.name for ref in _declared(context, incomplete))


@_completion
def topics(context: click.Context, incomplete: str) -> Iterable[str]:
    """The names of declared topics."""
    return (ref.name for ref in _declared(context, incomplete) if is_topic(ref))


@_completion
def groups(context: click.Context, incomplete: str) -> Iterable[str]:
    """The names of declared groups."""
    return (ref.name for ref in _declared(context, incomplete) if is_group(ref))


@_completion
def of_kind(context: click.Context, incomplete: str) -> Iterable[str]:
    """The names of what the argument before it names: topics or groups."""
    noun = str(context.params.get("kind")).removesuffix("s")
    declared = _declared(context, incomplete)
    return (ref.name for ref in declared if ref.kind in KINDS and KINDS[ref.kind].noun == noun)


@_completion
def codes(context: click.Context, _incomplete: str) -> Iterable[str]:
    """The codes of rules, notes and the project's policies."""
    from kafkaform.rules import entries

    return [*entries(), *(policy.code for policy in _settings(context).policies)]


@_completion
def health_codes(_context: click.Context, _incomplete: str) -> Iterable[str]:
    """The codes of the rules about health."""
    from kafkaform.rules import Rule, Stage, entries

    return [code for code, rule in entries().items() if isinstance(rule, Rule) and rule.stage is Stage.HEALTH]


def _settings(context: click.Context) -> Settings:
    """The configuration that the command would read."""
    given = context.params
    return find_settings(given.get("config_file"), untrusted=given.get("manifests_from"))


def _declared(context: click.Context, start: str) -> Iterator[ResourceRef]:
    """The resource of every manifest, sound or not, in a file that has these characters."""
    from kafkaform.config.manifests.files import manifest_files, read_bytes
    from kafkaform.config.manifests.loader import VERBATIM
    from kafkaform.config.manifests.yaml12 import read_documents

    ignored: list[Problem] = []
    for file in manifest_files(_settings(context).manifests, ignored):
        raw = read_bytes(file, ignored)
        if raw is None or start.encode() not in raw:
            continue  # most files, once a few characters are typed: parsing is what takes time
        for document in read_documents(raw, str(file), ignored.append, verbatim=VERBATIM):
            match document.data:
                case {"kind": str(kind), "metadata": {"name": str(name)}}:
                    yield ResourceRef(kind, name)
                case _:
                    pass  # no manifest, or not yet
