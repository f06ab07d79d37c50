"""Changing manifests in place, with every comment, quote and blank where it was.

The loader proves that the edited text means what was asked for, and that nothing else has changed.

Each edited text is proven before anybody sees it: the loader reads it again, and finds the wanted values,
and every other resource and every other environment as they were. What cannot be proven is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import (
    TYPE_CHECKING,
    Any,
    TypeAlias,
    cast,
)

from kafkaform.config.manifests.edit_files import EditedFile, replace_files
from kafkaform.config.manifests.edit_layout import (
    Scalar,
    documents,
    find,
    layout,
)
from kafkaform.config.manifests.edit_places import Manifest, overridden
from kafkaform.config.manifests.edit_text import Uneditable
from kafkaform.config.manifests.files import read_bytes
from kafkaform.config.manifests.loader import Context, load_all
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, ResourceRef
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkaform.config.manifests.edit_layout import Node
    from kafkaform.config.manifests.edit_places import Way
    from kafkaform.core.errors import Problem
    from kafkaform.core.model import Desired


Wanted: TypeAlias = Mapping[str, "FieldValue"]
"""New values by path; None for no own one."""


class Unproven(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text does not say what it should; the message says what it says instead."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the loader reads in a text.

    Attributes:
        environment: The environment that is edited; None if there is none.
        chosen: Its resources in that environment.
        others: Those in every other one.
    """

    environment: str | None
    chosen: Mapping[ResourceRef, Desired]
    others: Mapping[str, Mapping[ResourceRef, Desired]]


@dataclass(frozen=True, slots=True)
class TextLoader:
    """Has the loader read texts.

    Attributes:
        folder: Where the loader finds them.
        context: What the edited environment is read with.
        others: The other environments.
    """

    folder: Path
    context: Context
    others: tuple[str, ...]

    def read(self, text: str) -> Reading:
        """Read a text.

        Raises:
            Unproven: The loader refuses it.
        """
        path = self.folder / "manifest.yaml"
        path.write_bytes(text.encode())
        # What lies under the manifests of environments whose defaults nobody knows here: a difference must
        # never be hidden by a default that says the same.
        nowhere = {kind.name: (kind.nowhere,) for kind in KINDS.values()}
        contexts = [replace(self.context, root=None)]
        contexts += [
            replace(self.context, root=None, environment=name, defaults=nowhere) for name in self.others
        ]
        try:
            chosen, *others = load_all([path], contexts)
        except InvalidInput as error:
            raise Unproven(error.problems[0].message) from error
        by_name = {name: _by_ref(found) for name, found in zip(self.others, others, strict=True)}
        return Reading(self.context.environment, _by_ref(chosen), by_name)


def said(desired: Desired, path: str) -> FieldValue:
    """What a manifest, with everything under it, says of a field; None for no own value.

    Of a tombstone too: what it would say if it were none.
    """
    spec = desired.intent.spec
    if path == "state":
        return "absent" if spec.get("state") == "absent" else None
    name = path.removeprefix(CONFIG_PREFIX)
    holder = spec if name == path else cast("Mapping[str, Any]", spec.get("config", {}))
    return cast("FieldValue", holder.get(name))


def says(desired: Desired, path: str, value: FieldValue) -> bool:
    """Whether a manifest gives a field this value."""
    return KINDS[desired.ref.kind].equal(path, said(desired, path), value)


def check(before: Reading, after: Reading, wanted: Mapping[ResourceRef, Wanted]) -> None:
    """Raise Unproven unless exactly the wanted values are what is new, in the chosen environment alone."""
    if list(before.chosen) != list(after.chosen):
        raise Unproven("the file would declare other resources than before")
    for ref, old in before.chosen.items():
        _check_resource(old, after.chosen[ref], wanted.get(ref, {}))
    for name, resources in before.others.items():
        for ref, old in resources.items():
            if old != after.others[name][ref]:
                choose = "" if before.environment else ": choose the one that is meant with --environment"
                raise Unproven(f"{ref} would change in environment {name} too{choose}")


def _check_resource(before: Desired, after: Desired, wanted: Wanted) -> None:
    for path, value in wanted.items():
        if not says(after, path, value):
            raise Unproven(f"{path} would be {_shown(said(after, path))}")
    if _rest(before, wanted) != _rest(after, wanted):
        raise Unproven(f"more of {before.ref} would change than {', '.join(wanted) or 'nothing'}")


def _rest(desired: Desired, wanted: Wanted) -> object:
    """All that a manifest says besides some fields."""
    spec: dict[str, Any] = {**desired.intent.spec}
    config = {k: v for k, v in spec.pop("config", {}).items() if CONFIG_PREFIX + k not in wanted}
    spec = {name: value for name, value in spec.items() if name not in wanted}
    state: object = None
    if desired.state is not None and "state" not in wanted:
        state = {path: value for path, value in desired.state.items() if path not in wanted}
    return replace(desired.intent, spec={**spec, "config": config}), state


def _shown(value: FieldValue) -> str:
    return "unset" if value is None else str(value)


def _by_ref(found: Iterable[Desired]) -> dict[ResourceRef, Desired]:
    return {desired.ref: replace(desired, location=None) for desired in found}


_BOM = "\ufeff"
_CHANGED = "its file has changed since it was read"


@dataclass(frozen=True, slots=True)
class Edit:
    """A value that a manifest shall give a resource.

    Attributes:
        ref: The resource.
        path: A field as in `model.State` (`partitions`, `config.retention.ms`), or `state`.
        value: The value; None for no own one (a config back to the default). Of `state`: "absent", or None
            for a resource that shall exist.
    """

    ref: ResourceRef
    path: str
    value: FieldValue


@dataclass(frozen=True, slots=True)
class Editing:
    """What came of some edits; one to what a manifest says already is in neither part.

    Attributes:
        files: The files that they change.
        refused: The edits that are not in them, and why.
    """

    files: tuple[EditedFile, ...]
    refused: tuple[tuple[Edit, str], ...]


def edit(edits: Sequence[Edit], desired: Sequence[Desired], context: Context) -> Editing:
    """Work out what edits make of the manifests; nothing is written.

    Where environments share what a manifest says, the new value goes into the overrides of the context's one.

    Args:
        edits: The new values.
        desired: What the manifests say now, as loaded with the context.
        context: The environment whose values they are, and what there is besides.
    """
    declared = {resource.ref: resource for resource in desired}
    refused: dict[Edit, str] = {}
    by_file: dict[Path, list[Edit]] = {}
    values: dict[tuple[ResourceRef, str], FieldValue] = {}
    for one in dict.fromkeys(edits):
        resource = declared.get(one.ref)
        if resource is None or resource.location is None:
            refused[one] = "no manifest declares it"
        elif (reason := _objection(one)) is not None:
            refused[one] = reason
        elif values.setdefault((one.ref, one.path), one.value) != one.value:
            refused[one] = f"another value for {one.path} is also requested: {values[one.ref, one.path]}"
        else:
            path = (context.root or Path()) / resource.location.file
            by_file.setdefault(path, []).append(one)
    files = []
    with TemporaryDirectory(prefix="kafkaform-") as folder:
        for path, those in by_file.items():
            try:
                file = _File.read(path, [declared[one.ref] for one in those], context, Path(folder))
                after, reasons = file.edited(those)
            except Unproven as error:
                refused |= dict.fromkeys(those, str(error))
                continue
            refused |= reasons
            if after != file.text:
                files.append(EditedFile(path, file.text, after))
    return Editing(tuple(files), tuple((one, refused[one]) for one in dict.fromkeys(edits) if one in refused))


def write(editing: Editing) -> None:
    """Write the edited files: all of them or none.

    Raises:
        KafkaformError: One has changed since it was read, is a link to elsewhere, or cannot be written.
    """
    replace_files(editing.files)


def _objection(one: Edit) -> str | None:
    """What is wrong with an edit whatever the manifest says."""
    if one.path.startswith(CONFIG_PREFIX):
        return None
    if one.path == "state":
        return None if one.value in {None, "absent"} else f"there is no state {one.value}"
    kind = KINDS[one.ref.kind]
    if one.path not in kind.counts:
        return f"{one.path} is not a value that a manifest holds"
    if one.value is None:
        return f"a {kind.noun} always has {one.path}"
    if isinstance(one.value, str):
        return f"{one.path} is {one.value}, which is not a single number"
    return None


@dataclass(frozen=True, slots=True)
class _File:
    """A file to edit: its text, and what the loader reads in it."""

    text: str
    context: Context
    reader: TextLoader

    @staticmethod
    def read(path: Path, loaded: Sequence[Desired], context: Context, folder: Path) -> _File:
        """Read a file; raises Unproven if it does not say any more what was loaded."""
        problems: list[Problem] = []
        raw = read_bytes(path, problems)
        if raw is None:
            raise Unproven(f"its file {problems[0].message}")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise Unproven(_CHANGED) from error
        now = TextLoader(folder, context, ()).read(text).chosen
        if any(replace(resource, location=None) != now.get(resource.ref) for resource in loaded):
            raise Unproven(_CHANGED)
        names = {name for part in documents(text.removeprefix(_BOM)) for name in overridden(layout(part))}
        others = sorted(names.union(context.environments or ()) - {context.environment})
        return _File(text, context, TextLoader(folder, context, tuple(others)))

    def edited(self, edits: Sequence[Edit]) -> tuple[str, Mapping[Edit, str]]:
        """The text after edits, and why some of them are not in it."""
        bom = _BOM if self.text.startswith(_BOM) else ""
        parts = documents(self.text.removeprefix(_BOM))
        where = {_ref(layout(part)): index for index, part in enumerate(parts)}
        refused: dict[Edit, str] = {}
        made: dict[ResourceRef, dict[str, FieldValue]] = {}
        for ref in dict.fromkeys(one.ref for one in edits):
            those = [one for one in edits if one.ref == ref]
            parts[where[ref]], reasons = self._document(parts[where[ref]], ref, those)
            refused |= reasons
            made[ref] = {one.path: one.value for one in those if one not in reasons}
        after = bom + "".join(parts)
        check(self.reader.read(self.text), self.reader.read(after), made)
        return after, refused

    def _document(self, text: str, ref: ResourceRef, edits: Sequence[Edit]) -> tuple[str, Mapping[Edit, str]]:
        """The text of one manifest after edits; a change of its state holds with all others, or none does."""
        before = now = self.reader.read(text)
        after = text
        wanted: dict[str, FieldValue] = {}
        refused: dict[Edit, str] = {}
        for one in sorted(edits, key=lambda one: one.path == "state"):
            if says(now.chosen[ref], one.path, one.value):
                continue
            wanted[one.path] = one.value
            reason: str | None = None
            for way in self._ways(after, one):
                try:
                    new = way(after)
                    found = self.reader.read(new)
                    check(before, found, {ref: wanted})
                except (Uneditable, Unproven) as error:
                    reason = str(error)
                else:
                    after, now, reason = new, found, None
                    break
            if reason is not None:
                del wanted[one.path]
                refused[one] = reason
        state = next((reason for one, reason in refused.items() if one.path == "state"), None)
        return (after, refused) if state is None else (text, dict.fromkeys(edits, state))

    def _ways(self, text: str, one: Edit) -> Iterator[Way]:
        others = frozenset(self.reader.others)
        manifest = Manifest(layout(text), one.ref.kind, self.context.environment, others)
        return manifest.ways(one.path, one.value)


def _ref(root: Node | None) -> ResourceRef | None:
    kind, name = find(root, ("kind",)), find(root, ("metadata", "name"))
    if not isinstance(kind, Scalar) or not isinstance(name, Scalar):
        return None
    return ResourceRef(kind.value, name.value)
