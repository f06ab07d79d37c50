"""Every operation can be sent, read back and carried out in memory."""

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

import pytest

from kafkaform import resources
from kafkaform.cluster.kafka import readers
from kafkaform.cluster.kafka.writer import WRITERS, UnvalidatedWriter
from kafkaform.cluster.services import SERVICES
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import Operation
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.subject.operations import AlterSubject, DeleteSubject, PurgeSubject
from tests.support.memory_cluster import registry
from tests.support.memory_cluster.registry import EFFECTS


def test_every_operation_has_writer_reader_and_effect() -> None:
    packages = [name for _, name, is_package in iter_modules(resources.__path__) if is_package]
    modules = [import_module(f"{resources.__name__}.{name}.operations") for name in packages]
    classes = [found for module in modules for found in vars(module).values() if isinstance(found, type)]
    known = {found for found in classes if issubclass(found, Operation) and not isabstract(found)}
    elsewhere = {Reassign, AlterSubject, DeleteSubject, PurgeSubject}  # by the reassigner and the registry
    assert {*WRITERS} == {*EFFECTS} == known - elsewhere
    # The brokers in memory are asked for a check where real ones are, and in the same order.
    checked = [sort for sort, writer in WRITERS.items() if not isinstance(writer, UnvalidatedWriter)]
    assert [sort for sort, effect in EFFECTS.items() if effect.checked] == checked
    assert [*WRITERS] == [*EFFECTS]
    assert readers.READERS.keys() == registry.READERS.keys() == KINDS.keys() - SERVICES.keys()

    # No operation can leave out what is said of it.
    class Silent(Operation):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Silent(ResourceRef("Topic", "a"))  # type: ignore[abstract]
