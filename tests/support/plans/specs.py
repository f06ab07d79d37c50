"""The specs of manifests, layer by layer, and what is reported of them."""

from kafkaform.config.manifests.loader import merge
from kafkaform.core.model import Intent, State
from kafkaform.resources.base import Layer
from kafkaform.resources.consumer_group.spec import normalise, resolve

Report = tuple[tuple[str | int, ...], str, str | None, bool]
"""The path, the message, the hint, and whether the key is meant and not its value."""


class Reports(list[Report]):
    """Keeps what is reported."""

    def __call__(
        self, path: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False
    ) -> None:
        self.append((path, message, hint, key))

    def describe(self) -> str:
        """Return a line for each report: the path, what of it is wrong, the message and the hint."""
        return "".join(
            f"{'.'.join(map(str, path))} {'key' if key else 'value'}: {message} ({hint})\n"
            for path, message, hint, key in self
        )


def normalise_group(layer: Layer) -> Layer:
    """Return the normal form of a layer of a group in which nothing is wrong."""
    reports = Reports()
    normal = normalise(layer, reports)
    assert reports == []
    return normal


def report_group(layer: Layer) -> Reports:
    """Return what is reported of a layer of a group, alone and as a whole spec."""
    reports = Reports()
    resolve({"topics": ["t"], **normalise(layer, reports)}, reports)
    return reports


def resolve_group(*layers: Layer) -> tuple[State | None, Intent]:
    """Return the state and the intent of the layers of a group in which nothing is wrong."""
    reports = Reports()
    resolved = resolve(merge(map(normalise_group, layers)), reports)
    assert reports == []
    return resolved
