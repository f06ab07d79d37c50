"""Remediations of drift: an apply that restores the cluster, or an edit of the manifest."""

from __future__ import annotations

from glob import escape

from kafkaform.config.manifests.edit_targets import Manifest
from kafkaform.config.manifests.edit_text import find_node, list_entries, parse_layout
from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.manifests.scalars import render_inline
from kafkaform.core.model import Desired, FieldValue, Location, ResourceRef, Status
from kafkaform.core.printable import clipped, printable
from kafkaform.core.values import Value
from kafkaform.core.wording import command_line
from kafkaform.inspect.drift import FieldDrift, Form, ResourceDrift, explain_whole_obstacle, find_obstacle
from kafkaform.resources import KINDS
from kafkaform.resources.base import EditLocator
from kafkaform.resources.consent import grant_of
from kafkaform.resources.values import MAX_VALUE_LENGTH


class ManifestLine(Value):
    """A line to write into a manifest.

    Attributes:
        value: The value as the manifest writes it; None removes the resource's own value.
        location: The line that it replaces; for a new line, the nearest existing one.
        end_line: The last line that it replaces, as a list may have one line for each item.
        keys: The path of keys, its own last.
        new: Whether the line is added to the manifest.
        inside: Whether the replaced entry is in the brackets of the mapping around it.
    """

    value: object
    location: Location | None
    end_line: int | None
    keys: tuple[str, ...]
    new: bool
    inside: bool


class Remediation(Value):
    """A remediation of the drift of a resource.

    Attributes:
        command: The command; None if no command does this.
        reason: Why there is no command, or what the command leaves undone.
        instead: What to do instead.
        lines: The lines to write into the manifest.
    """

    command: str | None = None
    reason: str | None = None
    instead: str | None = None
    lines: tuple[ManifestLine, ...] = ()


class CommandContext(Value):
    """The arguments by which commands find the manifests and the cluster of a report.

    Attributes:
        paths: The manifests as given on the command line.
        options: The options that select the cluster.
        override: The environment or cluster whose overrides take an accepted value; None for the spec.
    """

    paths: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    override: str | None = None

    def command(self, verb: str, *options: str) -> str:
        """Return a command on these manifests, quoted for a shell."""
        return command_line(verb, *self.paths, options=(*options, *self.options))

    def get(self, ref: ResourceRef) -> str:
        """Return the command that prints a live resource as a manifest."""
        return command_line("get", KINDS[ref.kind].words.noun, ref.name, options=self.options)


def plan_restoration(drifted: ResourceDrift, context: CommandContext) -> Remediation:
    """Return the remediation that restores the cluster to the manifest.

    A config that nothing declares is only removed after the returned lines are in the manifest.
    """
    planned = drifted.planned
    lines = tuple(
        _manifest_line(drifted.desired, field, None, context) for field in drifted.fields if field.left_alone
    )
    apply = ("apply", "--target", _target_of(drifted.ref))
    match planned.status if planned is not None else None:
        case None | Status.PLANNED:
            return Remediation(context.command(*apply), lines=lines)
        case Status.NEEDS_CONSENT:
            assert planned is not None  # noqa: S101 - it has a status
            # The consents are part of the command, so that it can be run as printed once the risk below it
            # has been read.
            flags = [
                word for hazard in planned.missing for word in ("--allow", grant_of(planned.ref, hazard))
            ]
            return Remediation(context.command(*apply, *flags), planned.reason, planned.remedy, lines)
        case Status.REFUSED:
            assert planned is not None  # noqa: S101 - it has a status
            # No flag helps against a refusal, so no command is offered.
            return Remediation(None, f"refused: {planned.reason}", planned.remedy, lines)


def plan_acceptance(drifted: ResourceDrift, context: CommandContext) -> Remediation:
    """Return the remediation that adopts the live values into the manifest."""
    match drifted.form:
        case Form.MISSING:
            return Remediation(
                None, explain_whole_obstacle(drifted), "declare `state: absent`, or delete the manifest"
            )
        case Form.PRESENT:
            return Remediation(
                context.get(drifted.ref),
                explain_whole_obstacle(drifted),
                "replace the manifest with the output of this command",
            )
        case Form.DIFFERS:
            obstacles_by_field = [(field, find_obstacle(drifted.desired, field)) for field in drifted.fields]
            # What can be adopted is adopted; the reason names what keeps the other fields from it.
            adoptable = [field for field, reason in obstacles_by_field if reason is None]
            adopt = (
                context.command("drift", "--adopt", "--target", _target_of(drifted.ref))
                if adoptable
                else None
            )
            has_lines = not isinstance(KINDS[drifted.ref.kind], EditLocator)
            lines = tuple(
                _manifest_line(drifted.desired, field, field.change.before, context)
                for field in (adoptable if has_lines else ())
            )
            obstacles = dict.fromkeys(reason for _, reason in obstacles_by_field if reason is not None)
            return Remediation(adopt, "; ".join(obstacles) or None, None, lines)


def _target_of(ref: ResourceRef) -> str:
    """Return a target that matches only this resource: wildcards in its name are escaped."""
    # Groups may have any name, and a target is a glob.
    return f"{ref.kind}/{escape(ref.name)}"


def _manifest_line(
    desired: Desired, field: FieldDrift, value: FieldValue, context: CommandContext
) -> ManifestLine:
    path, keys = field.change.path, field.keys
    layer: tuple[str, ...] = (
        ("spec",) if context.override is None else ("spec", "overrides", context.override)
    )
    if keys is not None and keys[:2] == ("spec", "overrides") and keys[: len(layer)] == layer:
        layer = keys[:3]
    # By the code that edits manifests, so that a line of a report is what `drift --adopt` would write. A live
    # value of one cluster must not change the manifests of the others: it is an override for that one.
    document = desired.locations.document if isinstance(desired.locations, FieldLocations) else None
    root = None if document is None else parse_layout(render_inline(document.data))
    steps, new_value = Manifest(root, desired.ref.kind, (), frozenset()).describe_entry(layer, path, value)
    location, old = desired.nearest(steps), find_node(root, steps)
    if document is None or old is None:
        return ManifestLine(new_value, location, None, steps, new=True, inside=False)
    end = document.locate((*steps, len(list_entries(old)) - 1)).line
    inside = document.locate(steps[:-1], key=True).line == document.locate(steps, key=True).line
    return ManifestLine(new_value, location, end, steps, new=False, inside=inside)


UNDECLARED_FIRST = "First add this to the manifest, to remove what is not declared:"
BY_HAND = "Or edit the manifest:"


def format_yaml(line: ManifestLine) -> str:
    """Return the line as YAML, without its indentation."""
    return f"{render_inline(line.keys[-1])}: {render_inline(line.value)}"


def describe_line(line: ManifestLine) -> str:
    """Describe the line and where it belongs."""
    location = f"{line.location.file}:{line.location.line}" if line.location else "the manifest"
    if line.location and line.end_line not in {None, line.location.line}:
        location += f"-{line.end_line}"
    into = f", in {'.'.join(line.keys[:-1])}" if line.new or line.inside else ""
    return f"{printable(location + into)}:  {clipped(format_yaml(line), MAX_VALUE_LENGTH)}"
