"""Frozen dataclasses that are cheap to define: `@dataclass(frozen=True, slots=True)` without its compiler.

The standard library compiles six methods of each such class from source when its module is imported, which
takes 0.4 ms. A plan imports 180 of them, which was a fifth of its time for 1,000 topics. Here `__init__` is
compiled when the first object is made, and the other methods are closures over the names of the fields.
Fields, `replace`, `asdict`, pattern matching, equality, hashes and pickles are the standard library's.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options):
        """Return a decorator: the standard library's, unless a class is frozen, has slots, and no order."""
        # The standard library's mutable classes and comparisons by order need more generated methods; few
        # classes use them, so they are not worth a second implementation.
        if not (options.get("frozen") and options.get("slots")) or options.get("order"):
            return dataclasses.dataclass(**options)
        eq, shown = options.get("eq", True), options.get("repr", True)
        return lambda cls: _define(cls, eq=eq, shown=shown)


def _define(cls: type, *, eq: bool, shown: bool) -> type:
    # Python sets __hash__ to None in a class that defines __eq__: that is not a method of its own.
    own = {name for name, value in vars(cls).items() if (name, value) != ("__hash__", None)}
    # Without its methods, the standard decorator compiles nothing; as slots are wanted, it makes a new class.
    slotted: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    fields = dataclasses.fields(slotted)

    def initialize(self: object, *args: object, **kwargs: object) -> None:
        # Replaces itself: every later object uses the compiled method directly.
        slotted.__init__ = _compile_init(slotted)
        slotted.__init__(self, *args, **kwargs)

    methods: dict[str, Callable[..., Any]] = {
        "__init__": initialize,
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _get_state,
        "__setstate__": _set_state,
    }
    if shown:
        methods["__repr__"] = _make_repr([item.name for item in fields if item.repr])
    if eq:
        methods |= _make_comparisons([item.name for item in fields if item.compare])
    for name, method in methods.items():
        if name not in own:
            setattr(slotted, name, method)
    return slotted  # type: ignore[no-any-return]


def _compile_init(cls: Any) -> Callable[..., None]:
    # The class is frozen, so `self.x = x` would raise; the standard library assigns in the same way.
    scope: dict[str, Any] = {"_assign_": object.__setattr__, "_MISSING_": dataclasses.MISSING}
    parameters, lines = ["self"], []
    for item in dataclasses.fields(cls):
        parameter = value = name = item.name
        if item.default is not dataclasses.MISSING:
            scope[f"_{name}_default_"] = item.default
            parameter = f"{name}=_{name}_default_"
        elif item.default_factory is not dataclasses.MISSING:
            scope[f"_{name}_factory_"] = item.default_factory
            # A factory is called once for each object, not once for the class.
            parameter = f"{name}=_MISSING_"
            value = f"_{name}_factory_()" + (f" if {name} is _MISSING_ else {name}" if item.init else "")
        if item.init:
            parameters.append(parameter)
        lines.append(f"  _assign_(self, {name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()\n")
    lines = lines or ["  pass\n"]
    header = f"def define({', '.join(scope)}):\n def __init__({', '.join(parameters)}):\n"
    namespace: dict[str, Any] = {}
    exec(f"{header}{''.join(lines)} return __init__", {}, namespace)  # noqa: S102 - fields are identifiers
    init: Callable[..., None] = namespace["define"](**scope)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _make_repr(names: Sequence[str]) -> Callable[[object], str]:
    def represent(self: object) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return represent


def _make_comparisons(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    values: Callable[[object], object]
    # One name gives a value, not a tuple, which would be unequal to itself where the value is NaN.
    values = attrgetter(*names) if len(names) > 1 else lambda self: tuple(getattr(self, n) for n in names)

    def equals(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equals, "__hash__": lambda self: hash(values(self))}


def _refuse_assignment(self: object, name: str, value: object) -> None:  # noqa: ARG001 - as Python calls it
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:  # noqa: ARG001
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


# Without these two, pickle would call __setattr__, which refuses the assignment.
def _get_state(self: Any) -> list[object]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)
