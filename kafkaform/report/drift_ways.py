"""How drift is settled: by an apply that restores the cluster, or by an edit of the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from glob import escape
from typing import TYPE_CHECKING

from kafkaform.config.manifests.scalars import Style, written
from kafkaform.core.model import CONFIG_PREFIX, Status
from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import command
from kafkaform.inspect.drift import Form, obstacle, whole_obstacle
from kafkaform.report.notes import ConsentLedger
from kafkaform.resources import KINDS
from kafkaform.resources.consent import grant_of
from kafkaform.resources.values import LONGEST

if TYPE_CHECKING:
    from kafkaform.core.model import (
        Desired,
        FieldValue,
        Location,
        ResourceRef,
    )
    from kafkaform.inspect.drift import Drift, FieldDrift, ResourceDrift


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a manifest that is to be written.

    Attributes:
        kind: The kind of the resource.
        path: The field that it sets.
        value: What to; None: the resource is to have no own value.
        place: The line that it replaces; for a new one, the nearest that is there already.
        keys: The keys that lead to it, its own last.
        new: Whether the manifest does not have it yet.
    """

    kind: str
    path: str
    value: FieldValue
    place: Location | None
    keys: tuple[str, ...]
    new: bool


@dataclass(frozen=True, slots=True)
class Way:
    """One way to settle the drift of a resource.

    Attributes:
        command: The command that does it; None where none does.
        reason: Why there is no command, or what the command does not do.
        instead: What to do instead.
        lines: The lines of the manifest that it takes.
    """

    command: str | None = None
    reason: str | None = None
    instead: str | None = None
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Reach:
    """How commands get at the manifests and the cluster of a report.

    Attributes:
        paths: The manifests, as they were given.
        options: What leads to the cluster.
        override: The environment that an accepted value is written down for; None where it is the only one.
    """

    paths: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    override: str | None = None

    def command(self, verb: str, *options: str) -> str:
        """A command about these manifests, quoted for a shell."""
        return command(verb, *self.paths, options=(*options, *self.options))

    def get(self, ref: ResourceRef) -> str:
        """The command that prints a live resource as a manifest."""
        return command("get", KINDS[ref.kind].noun, ref.name, options=self.options)


def restoring(drifted: ResourceDrift, drift: Drift, reach: Reach) -> Way:
    """How the cluster is brought back to what the manifest says.

    A config that nothing declares is taken away only once the manifest says so, by the lines.
    """
    planned = drifted.planned
    lines = tuple(_line(drifted.desired, one, None, reach) for one in drifted.fields if one.left_alone)
    apply = ("apply", "--target", _only(drifted.ref))
    match planned.status if planned is not None else None:
        case None | Status.PLANNED:
            return Way(reach.command(*apply), lines=lines)
        case Status.NEEDS_CONSENT:
            assert planned is not None  # noqa: S101 - it has a status
            hazards = ConsentLedger(drift.plan).missing(planned)
            flags = [word for hazard in hazards for word in ("--allow", grant_of(planned.ref, hazard))]
            return Way(reach.command(*apply, *flags), planned.reason, planned.remedy, lines)
        case Status.REFUSED:
            assert planned is not None  # noqa: S101 - it has a status
            return Way(None, f"refused: {planned.reason}", planned.remedy, lines)


def accepting(drifted: ResourceDrift, reach: Reach) -> Way:
    """How the manifest is brought to what the cluster has."""
    match drifted.form:
        case Form.MISSING:
            return Way(None, whole_obstacle(drifted), "declare state: absent, or delete the manifest")
        case Form.PRESENT:
            return Way(
                reach.get(drifted.ref),
                whole_obstacle(drifted),
                "replace the manifest with the output of this command",
            )
        case Form.DIFFERS:
            fields = [(one, obstacle(drifted.ref, one)) for one in drifted.fields]
            lines = tuple(
                _line(drifted.desired, one, one.change.before, reach)
                for one, reason in fields
                if reason is None
            )
            adopt = reach.command("drift", "--adopt", "--target", _only(drifted.ref)) if lines else None
            obstacles = dict.fromkeys(reason for _, reason in fields if reason is not None)
            return Way(adopt, "; ".join(obstacles) or None, None, lines)


def _only(ref: ResourceRef) -> str:
    """What matches this resource and no other, whatever its name has of a pattern."""
    return f"{ref.kind}/{escape(ref.name)}"


def _line(desired: Desired, one: FieldDrift, value: FieldValue, reach: Reach) -> Line:
    path, keys = one.change.path, one.keys
    base = ("spec",) if reach.override is None else ("spec", "overrides", reach.override)
    # What one cluster has is no word on the others: what holds for those stays as it is.
    if keys is not None and keys[: len(base)] == base:
        return Line(desired.ref.kind, path, value, one.place, keys, new=False)
    own = ("config", path.removeprefix(CONFIG_PREFIX)) if path.startswith(CONFIG_PREFIX) else (path,)
    return Line(desired.ref.kind, path, value, desired.nearest((*base, *own)), (*base, *own), new=True)


UNDECLARED_FIRST = "First add this to the manifest, to remove what is not declared:"
BY_HAND = "Or edit the manifest:"

_STYLE = Style()


def yaml_of(line: Line) -> str:
    """The line itself, without its indentation."""
    value: str | int | bool | None = line.value
    if isinstance(value, str) and line.path.startswith(CONFIG_PREFIX):
        value = written(KINDS[line.kind].configs().get(line.path.removeprefix(CONFIG_PREFIX)), value)
    return f"{_STYLE.scalar(line.keys[-1])}: {_STYLE.scalar(value)}"


def line_words(line: Line) -> str:
    """Where it goes, and the line."""
    where = f"{line.place.file}:{line.place.line}" if line.place else "the manifest"
    into = f", in {'.'.join(line.keys[:-1])}" if line.new else ""
    return f"{printable(where + into)}:  {clipped(yaml_of(line), LONGEST)}"
