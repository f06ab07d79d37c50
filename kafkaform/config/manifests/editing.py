"""Edits of manifests in place, which keep every comment, quote and blank.

Each edited text is verified before it is returned: the loader must read the wanted values, and every other
resource and environment unchanged. Edits that cannot be verified are refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from kafkaform.config.manifests.edit_files import EditedFile, replace_files
from kafkaform.config.manifests.edit_targets import Manifest, TextEdit, list_overrides
from kafkaform.config.manifests.edit_text import Uneditable, find_node, parse_layout, split_documents
from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.manifests.files import read_bytes
from kafkaform.config.manifests.loader import Context, Underlay, load_all
from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.core.files import read_file
from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, ResourceRef
from kafkaform.core.schema_files import find_marked, load_inlined_schema
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import listed
from kafkaform.resources import KINDS
from kafkaform.resources.base import EditLocator, Kind, Layer, ListItem, ManifestEdit, locate_edit

if TYPE_CHECKING:
    import yaml

YamlValue: TypeAlias = "FieldValue | Sequence[Mapping[str, object]]"
"""A value of a manifest: of a field, or a list."""
Wanted: TypeAlias = Mapping[str, YamlValue]
"""New values by path; None to remove a value."""


class Unverified(Exception):  # noqa: N818 - becomes the reason of a refused edit
    """The text does not have the wanted meaning; the message is its actual meaning."""


class Reading(Value):
    """The resources that the loader reads in a text.

    Attributes:
        environment: The environment to edit; None if there is none.
        chosen: The resources in that environment.
        by_environment: The resources in every other environment.
    """

    environment: str | None
    chosen: Mapping[ResourceRef, Desired]
    by_environment: Mapping[str, Mapping[ResourceRef, Desired]]


class TextLoader(Value):
    """The loader, for texts instead of files.

    Attributes:
        folder: A temporary folder for the texts.
        context: The context of the environment to edit.
        other_scopes: The other environments and clusters.
        home: The folder of the manifest, to which the files that it names are relative.
    """

    folder: Path
    context: Context
    other_scopes: tuple[str, ...]
    home: Path

    def read(self, text: str) -> Reading:
        """Load the resources of a text.

        Raises:
            Unverified: The loader rejects the text.
        """
        # Through a file: the loader that reads it here is the one of every plan.
        path = self.folder / "manifest.yaml"
        path.write_bytes(text.encode())
        # The defaults of other environments are unknown here. These placeholders differ from every value, so
        # that no default hides a difference.
        placeholders = {kind.name: (_build_placeholders(kind),) for kind in KINDS.values()}
        under = {kind: Underlay(layers) for kind, layers in placeholders.items()}
        profiles = dict.fromkeys(self.context.profiles, under)
        contexts = [replace(self.context, root=None)]
        contexts += [
            replace(contexts[0].choose(name), defaults=placeholders, profiles=profiles)
            for name in self.other_scopes
        ]
        try:
            # Other manifests of the same resources are in other files: each is verified by itself.
            chosen, *loaded = load_all([path], contexts, combined=False, folder=self.home)
        except InvalidInput as error:
            raise Unverified(error.problems[0].message) from error
        by_name = {
            name: _index_by_ref(resources) for name, resources in zip(self.other_scopes, loaded, strict=True)
        }
        return Reading(self.context.environment, _index_by_ref(chosen), by_name)


def get_declared(desired: Desired, path: str) -> YamlValue:
    """Return the value that a manifest and the defaults under it declare for a field; None if they have none.

    For a tombstone, the value that it would declare without `state: absent`.
    """
    spec = desired.intent.spec
    if path == "state":
        return "absent" if spec.get("state") == "absent" else None
    name = path.removeprefix(CONFIG_PREFIX)
    holder = spec if name == path else cast("Mapping[str, Any]", spec.get("config", {}))
    return cast("YamlValue", holder.get(name))


def declares(desired: Desired, path: str, value: YamlValue) -> bool:
    """Return whether a manifest declares this value for a field."""
    declared = get_declared(desired, path)
    if isinstance(value, list):
        return (declared or []) == value
    return KINDS[desired.ref.kind].field(path).equal(cast("FieldValue", declared), cast("FieldValue", value))


def check_edits(before: Reading, after: Reading, wanted: Mapping[ResourceRef, Wanted]) -> None:
    """Raise Unverified unless exactly the wanted values have changed, and only in the chosen environment."""
    if list(before.chosen) != list(after.chosen):
        raise Unverified("the file would declare other resources than before")
    for ref, old in before.chosen.items():
        _check_resource(old, after.chosen[ref], wanted.get(ref, {}))
    for name, resources in before.by_environment.items():
        for ref, old in resources.items():
            if old != after.by_environment[name][ref]:
                choose = "" if before.environment else ": choose one with --environment"
                raise Unverified(f"{ref} would change for {name} too{choose}")


def _check_resource(before: Desired, after: Desired, wanted: Wanted) -> None:
    for path, value in wanted.items():
        if not declares(after, path, value):
            declared = get_declared(after, path)
            raise Unverified(f"{path} would be {'unset' if declared is None else declared}")
    if _exclude_fields(before, wanted) != _exclude_fields(after, wanted):
        raise Unverified(f"other fields of {before.ref} would change too")


def _exclude_fields(desired: Desired, wanted: Wanted) -> object:
    """Return the intent and the state of a manifest without some fields."""
    spec: dict[str, Any] = {**desired.intent.spec}
    config = {k: v for k, v in spec.pop("config", {}).items() if CONFIG_PREFIX + k not in wanted}
    spec = {name: value for name, value in spec.items() if name not in wanted}
    state: object = None
    if desired.state is not None and "state" not in wanted:
        state = {path: value for path, value in desired.state.items() if path not in wanted}
    return replace(desired.intent, spec={**spec, "config": config}), state


def _index_by_ref(resources: Iterable[Desired]) -> dict[ResourceRef, Desired]:
    return {desired.ref: replace(desired, location=None) for desired in resources}


_BOM = "\ufeff"
_CHANGED = "its file has changed since it was read"


class Edit(Value):
    """A new value of a field in a manifest.

    Attributes:
        path: A field as in `model.State` (`partitions`, `config.retention.ms`), or `state`.
        value: The value; None to remove it (a config returns to its default). For `state`: "absent", or None
            for a resource that should exist.
    """

    ref: ResourceRef
    path: str
    value: FieldValue


class EditResult(Value):
    """The result of some edits; edits that change nothing are in neither part.

    Attributes:
        refused: The edits that were not made, with the reasons.
    """

    files: tuple[EditedFile, ...]
    refused: tuple[tuple[Edit, str], ...]


def edit_manifests(edits: Sequence[Edit], desired: Sequence[Desired], context: Context) -> EditResult:
    """Edit the texts of manifests; nothing is written.

    If environments share a value, the new one is added to the overrides of the context's environment; if
    clusters of that environment do, to those of the context's cluster.

    Args:
        edits: The new values.
        desired: The current declarations, loaded with the context.
        context: The context with the environment to edit.
    """
    declared = {resource.ref: resource for resource in desired}
    refused: dict[Edit, str] = {}
    by_file: dict[Path, dict[Edit, ManifestEdit]] = {}
    values: dict[tuple[ResourceRef, str], FieldValue] = {}
    files = []
    for edit in dict.fromkeys(edits):
        resource = declared.get(edit.ref)
        if resource is None or resource.location is None:
            refused[edit] = "no manifest declares it"
            continue
        located = locate_edit(KINDS[edit.ref.kind], resource, edit.path, edit.value)
        if located is None:
            continue
        if isinstance(located, str):
            refused[edit] = located
        elif (reason := _find_objection(located)) is not None:
            refused[edit] = reason
        elif values.setdefault((edit.ref, edit.path), edit.value) != edit.value:
            refused[edit] = f"another value for {edit.path} is also requested: {values[edit.ref, edit.path]}"
        else:
            assert located.manifest.location is not None  # noqa: S101 - it was read from a file
            path = (context.root or Path()) / located.manifest.location.file
            named = _find_named_file(located.manifest, edit.path, context)
            # The environments share the file: the override of this one gets the text itself.
            if named is None or len(context.environments or ()) > 1:
                by_file.setdefault(path, {})[edit] = located
            elif users := [
                str(user.ref)
                for user in declared.values()
                if user.ref != edit.ref and _find_named_file(user, edit.path, context) == named
            ]:
                refused[edit] = f"{named} is also named by {listed(users)}: edit it by hand"
            else:
                files.append(EditedFile(named, read_file(named).decode(), located.file_text))
    with TemporaryDirectory(prefix="kafkaform-") as folder:
        for path, file_edits in by_file.items():
            try:
                loaded = [located.manifest for located in file_edits.values()]
                file = _File.read(path, loaded, context, Path(folder))
                after, reasons = file.apply_edits(file_edits)
            except Unverified as error:
                refused |= dict.fromkeys(file_edits, str(error))
                continue
            refused |= reasons
            if after != file.text:
                files.append(EditedFile(path, file.text, after))
    return EditResult(
        tuple(files), tuple((edit, refused[edit]) for edit in dict.fromkeys(edits) if edit in refused)
    )


def write_edits(editing: EditResult) -> None:
    """Write the edited files: all of them or none.

    Raises:
        KafkaformError: A file has changed since it was read, links to another folder, or cannot be written.
    """
    replace_files(editing.files)


def _find_named_file(desired: Desired, path: str, context: Context) -> Path | None:
    """Return the file that a manifest names as the text of a field; None if it has the text itself."""
    locations, location = desired.locations, desired.location
    name = locations.find_file(path) if isinstance(locations, FieldLocations) else None
    if name is None or location is None:
        return None
    return Path(os.path.normpath((context.root or Path()) / Path(location.file).parent / name))


def _find_objection(edit: ManifestEdit) -> str | None:
    """Return the reason why an edit is impossible in any manifest; None if it is possible."""
    if edit.path.startswith(CONFIG_PREFIX) or isinstance(edit.value, ListItem):
        return None
    if isinstance(KINDS[edit.manifest.ref.kind], EditLocator) and edit.path != "state":
        return None
    if edit.path == "state":
        return None if edit.value in {None, "absent"} else f"state cannot be {edit.value} (only absent)"
    kind = KINDS[edit.manifest.ref.kind]
    if edit.path not in find_marked(kind.schema, "x-required"):
        return f"{edit.path} cannot be set in a manifest"
    if edit.value is None:
        return f"a {kind.words.noun} always has {edit.path}"
    if isinstance(edit.value, str):
        return f"{edit.path} is {edit.value}, which is not a single number"
    return None


def _build_placeholders(kind: Kind) -> Layer:
    """Return a spec whose required fields have values that no manifest can have."""
    fields = load_inlined_schema(kind.schema)["properties"]["spec"]["properties"]
    required = find_marked(kind.schema, "x-required")
    return {name: 0 if fields[name].get("type") == "integer" else [] for name in required}


class _File(Value):
    """A file to edit."""

    text: str
    context: Context
    reader: TextLoader

    @staticmethod
    def read(path: Path, loaded: Sequence[Desired], context: Context, folder: Path) -> _File:
        """Read a file; raises Unverified if its resources have changed since they were loaded."""
        problems: list[Problem] = []
        raw = read_bytes(path, problems)
        if raw is None:
            raise Unverified(f"its file {problems[0].message}")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise Unverified(_CHANGED) from error
        now = TextLoader(folder, context, (), path.parent).read(text).chosen
        # The plan that asks for the edits was made of the earlier text.
        if any(replace(resource, location=None) != now.get(resource.ref) for resource in loaded):
            raise Unverified(_CHANGED)
        names = {
            name
            for part in split_documents(text.removeprefix(_BOM))
            for name in list_overrides(parse_layout(part))
        }
        # What changes for one cluster without overrides of its own changes for all of them.
        if (sibling := context.find_sibling(names)) is not None:
            names.add(sibling)
        other_scopes = sorted(names.union(context.environments or ()).difference(context.scopes))
        return _File(text, context, TextLoader(folder, context, tuple(other_scopes), path.parent))

    def apply_edits(self, edits: Mapping[Edit, ManifestEdit]) -> tuple[str, Mapping[Edit, str]]:
        """Return the edited text, and the edits that were not made with their reasons."""
        bom = _BOM if self.text.startswith(_BOM) else ""
        parts = split_documents(self.text.removeprefix(_BOM))
        indexes = {_read_ref(parse_layout(part)): index for index, part in enumerate(parts)}
        refused: dict[Edit, str] = {}
        wanted: dict[ResourceRef, Wanted] = {}
        for ref in dict.fromkeys(located.manifest.ref for located in edits.values()):
            own = {edit: located for edit, located in edits.items() if located.manifest.ref == ref}
            parts[indexes[ref]], wanted[ref], reasons = self._edit_document(parts[indexes[ref]], ref, own)
            refused |= reasons
        after = bom + "".join(parts)
        # For the whole file: until now, its documents were checked one at a time.
        check_edits(self.reader.read(self.text), self.reader.read(after), wanted)
        return after, refused

    def _edit_document(
        self, text: str, ref: ResourceRef, edits: Mapping[Edit, ManifestEdit]
    ) -> tuple[str, Wanted, Mapping[Edit, str]]:
        """Edit one manifest; if a change of its state is refused, all its edits are.

        Returns:
            The text, the new values in it, and the edits that were not made with their reasons.
        """
        before = now = self.reader.read(text)
        after = text
        wanted: Wanted = {}
        refused: dict[Edit, str] = {}
        for edit, located in sorted(edits.items(), key=lambda each: each[0].path == "state"):
            value = _compute_value(now.chosen[ref], located)
            if declares(now.chosen[ref], located.path, value):
                continue
            attempt = {**wanted, located.path: value}
            # The first proposal whose result reads as wanted is taken.
            for proposal in self._propose_edits(after, now.chosen[ref], located, value):
                try:
                    new = proposal.apply(after)
                    reading = self.reader.read(new)
                    check_edits(before, reading, {ref: attempt})
                except Uneditable as error:
                    location = located.manifest.nearest(proposal.steps)
                    refused[edit] = f"{error}, which is not edited: {proposal.by_hand} ({location})"
                except Unverified as error:
                    refused.setdefault(edit, str(error))
                else:
                    after, now, wanted = new, reading, attempt
                    refused.pop(edit, None)
                    break
        state = next((reason for edit, reason in refused.items() if edit.path == "state"), None)
        return (after, wanted, refused) if state is None else (text, {}, dict.fromkeys(edits, state))

    def _propose_edits(
        self, text: str, current: Desired, edit: ManifestEdit, value: YamlValue
    ) -> Iterator[TextEdit]:
        other_scopes = frozenset(self.reader.other_scopes)
        manifest = Manifest(parse_layout(text), current.ref.kind, self.context.scopes, other_scopes)
        if not isinstance(edit.value, ListItem):
            return manifest.propose_edits(edit.path, edit.value)
        items = cast("list[Mapping[str, object]]", get_declared(current, edit.path) or [])
        removed = None if edit.value.added else items.index(edit.value.item)
        return manifest.propose_item_edits(edit.path, removed, cast("list[Mapping[str, object]]", value))


def _compute_value(current: Desired, edit: ManifestEdit) -> YamlValue:
    """Return the value of an edited field: of a list, all of its items."""
    if not isinstance(edit.value, ListItem):
        return edit.value
    items = cast("list[Mapping[str, object]]", get_declared(current, edit.path) or [])
    if edit.value.added:
        return items if edit.value.item in items else [*items, edit.value.item]
    return [item for item in items if item != edit.value.item]


def _read_ref(root: yaml.Node | None) -> ResourceRef | None:
    kind, name = find_node(root, ("kind",)), find_node(root, ("metadata", "name"))
    return None if kind is None or name is None else ResourceRef(kind.value, name.value)
