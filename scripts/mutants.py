"""Mutate one line of the core modules at a time, and report the mutations that no test notices.

The unit tests of each module run once to record the lines that each of them reaches. Then, for each mutation,
a process is forked from one that has imported all libraries, and runs the tests that reach its line, the
fastest first, until one fails. Tests that start other processes do not see mutations. The same seed gives the
same mutations of the same code. An equivalent mutation changes no observable behaviour: list it in
`EQUIVALENT` with the reason, instead of writing a test.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PLANNING = (
    "plan/test_planner",
    "plan/test_planning",
    "plan/test_placement_planning",
    "plan/test_successions",
    "apply/test_recreation",
    "inspect/test_drift",
    "resources/test_user",
    "resources/test_kind_journeys",
)
APPLYING = (
    "apply/test_executor",
    "plan/test_planning",
    "apply/test_recreation",
    "audit/test_audit_trail",
    "apply/test_acknowledged",
    "resources/test_user",
    "resources/test_kind_journeys",
)
TESTS = {
    "plan/difference": (*PLANNING, "inspect/test_resets", "resources/test_access"),
    "plan/risk_assessment": (*PLANNING, "resources/test_access", "resources/test_subject"),
    "plan/gate": ("plan/test_gate", *PLANNING, "rules/test_rules_suggestions"),
    "plan/conclusion": PLANNING,
    "plan/validation": ("plan/test_planning", "plan/test_placement_planning"),
    "resources/consent": ("plan/test_gate", "plan/test_planner", "rules/test_rules_suggestions"),
    "plan/measuring": (
        "plan/test_planning",
        "plan/test_placement_planning",
        "audit/test_audit_recommits",
        "apply/test_recreation",
    ),
    "plan/preconditions": (
        "plan/test_preconditions",
        "apply/test_acknowledged",
        "plan/test_planning",
        "apply/test_executor",
        "apply/test_recreation",
        "resources/test_user",
    ),
    "apply/executor": (*APPLYING, "apply/test_moves_reassignment"),
    "apply/change_execution": (*APPLYING, "audit/test_audit_recommits", "apply/test_moves_reassignment"),
    "core/operations": ("core/test_batches", "apply/test_executor"),
    "plan/plan_file": ("plan/test_plan_file", "plan/test_plan_signature", "plan/test_planning"),
    "core/units": ("core/test_units", "resources/test_topic_risk"),
    "resources/topic/risk": (
        "resources/test_topic_risk",
        "apply/test_recreation",
        "plan/test_planner",
        "plan/test_planning",
    ),
    "resources/topic/config_risk": ("resources/test_topic_risk", "plan/test_planner"),
    "rules/changes": ("rules/test_rule_rows", "rules/test_rules"),
    "cluster/wire/large_responses": ("cluster/test_wire", "cluster/test_topic_sources"),
    "config/manifests/yaml12": ("config/test_yaml12", "config/test_loader"),
    "config/manifests/yaml_hazards": ("config/test_yaml12",),
    "apply/moves/reassignment": (
        "apply/test_moves_reassignment",
        "apply/test_moves_parts",
        "apply/test_executor",
    ),
    "apply/moves/throttles": (
        "apply/test_moves_parts",
        "apply/test_moves_reassignment",
        "apply/test_executor",
    ),
    "audit/trail": ("audit/test_audit_trail", "audit/test_audit_recommits", "apply/test_recreation"),
}
"""The modules and their tests, the most likely to notice a mutation first."""
EQUIVALENT = {
    ("core/operations", "MAX_WEIGHT = 5_000", "5_000 -> 5001"): "any number near it does",
    (
        "apply/change_execution",
        'self.planned.reason or "",',
        'self.planned.reason or "" -> self.planned.reason',
    ): "what is refused or needs consent has a reason",
    (
        "apply/change_execution",
        "self.result or Result.NOT_TRIED,",
        "self.result or Result.NOT_TRIED -> self.result",
    ): "every execution has ended by then",
    (
        "apply/change_execution",
        "if self.error is not None and not (self.in_doubt or self.partial):",
        (
            "self.error is not None and not (self.in_doubt or self.partial) -> "
            "not (self.in_doubt or self.partial)"
        ),
    ): "without an error, moves that are not in place are in doubt",
    (
        "apply/change_execution",
        "if self.error is not None and not self.sent:",
        "self.error is not None and not self.sent -> not self.sent",
    ): "what was not sent and has no error is not read back",
    (
        "resources/consent",
        'if not colon or "/" not in resource or not hazard:',
        "not colon or \"/\" not in resource or not hazard -> '/' not in resource or not hazard",
    ): "without a colon, rpartition finds no resource, and so no slash in it",
    (
        "resources/topic/risk",
        "if fewest_after < 2 and (most_before is None or most_before > fewest_after):",
        "fewest_after < 2 and (most_before is None or most_before > fewest_after) -> fewest_after < 2",
    ): "a change from 1 replica to fewer or as many is none",
    (
        "config/manifests/yaml12",
        "if not self._checked and (",
        (
            'not self._checked and ( key.tag != UNTAGGED or name == "<<" or type(name) is not str or '
            "name in data ) -> not self._checked"
        ),
    ): "a document that is rejected here is constructed after a thorough check",
    (
        "config/manifests/yaml12",
        'key.tag != UNTAGGED or name == "<<" or type(name) is not str or name in data',
        "name == \"<<\" -> name != '<<'",
    ): "a document that is rejected here is constructed after a thorough check",
    (
        "config/manifests/yaml12",
        'key.tag != UNTAGGED or name == "<<" or type(name) is not str or name in data',
        "name in data -> name not in data",
    ): "a document that is rejected here is constructed after a thorough check",
    (
        "config/manifests/yaml12",
        'if "<<<<<<<" in text and (conflict := find_conflict(text, file)) is not None:',
        (
            '"<<<<<<<" in text and (conflict := find_conflict(text, file)) is not None -> '
            "(conflict := find_conflict(text, file)) is not None"
        ),
    ): "what has a conflict has this text: to look for it first saves time",
    (
        "config/manifests/yaml12",
        "self._verbatim = verbatim or frozenset()",
        "verbatim or frozenset() -> verbatim",
    ): "without a set all is kept, and nothing is looked up in it",
    (
        "config/manifests/yaml12",
        "marks: Sequence[int] = field(repr=False)",
        "False -> True",
    ): "documents are not shown",
    (
        "config/manifests/yaml12",
        "default_factory=dict, init=False, repr=False, compare=False",
        "False -> True",
    ): "documents are neither shown nor compared, and nobody passes an index",
    (
        "config/manifests/yaml12",
        "if self.size <= _SMALL:",
        "self.size <= _SMALL -> self.size < _SMALL",
    ): "any number near it does",
    (
        "config/manifests/yaml12",
        "if len(text) <= MAX_DIGITS and _INT.fullmatch(text):",
        "len(text) <= MAX_DIGITS -> len(text) < MAX_DIGITS",
    ): "any number near it does",
    (
        "config/manifests/yaml_hazards",
        'return 4 * len(text) > MAX_NODES or sum(map(text.count, "[{-:?")) > MAX_DEPTH',
        "4 -> 5",
    ): "the thorough parser reads more texts, alike",
    (
        "config/manifests/yaml_hazards",
        "size += sizes.get(id(child), 1)",
        "1 -> 2",
    ): "only a node that contains itself has no size yet, and is rejected for that",
    (
        "config/manifests/yaml_hazards",
        "mark = error.problem_mark or error.context_mark",
        "error.problem_mark or error.context_mark -> error.problem_mark",
    ): "libyaml knows the place of each problem",
    (
        "config/manifests/yaml_hazards",
        'return lines[number] if number < len(lines) else ""',
        "number < len(lines) -> number <= len(lines)",
    ): "these problems of libyaml are in a line of the text",
    ("core/units", "@lru_cache(maxsize=1024)", "1024 -> 1025"): "any number near it does",
    (
        "core/units",
        (
            "size = next((size for unit in _FORMAT_DURATION if milliseconds >= 2 * "
            "(size := MILLISECONDS[unit])), 1)"
        ),
        (
            "milliseconds >= 2 * (size := MILLISECONDS[unit]) -> "
            "milliseconds > 2 * (size := MILLISECONDS[unit])"
        ),
    ): "two of a unit are a whole number of the next smaller one",
    ("cluster/wire/large_responses", "epoch=since(7, INT32, 0),", "0 -> 1"): "it is not kept",
    ("cluster/wire/large_responses", "operations=since(8, INT32, 0),", "0 -> 1"): "they are not kept",
    (
        "cluster/wire/large_responses",
        "operations=Versions(INT32, default=0, first=8, last=_WITHOUT_CLUSTER_OPERATIONS - 1),",
        "0 -> 1",
    ): "they are not kept",
    (
        "cluster/wire/large_responses",
        "if version < _FAST:",
        "version < _FAST -> version <= _FAST",
    ): "both read the first flexible version",
    ("cluster/wire/large_responses", ")(1, False)", "1 -> 2"): "its fields are in every version",
    (
        "config/manifests/yaml_hazards",
        "height = max(height, heights.get(id(child), 0))",
        "0 -> 1",
    ): "only a node that contains itself has no height yet, and is rejected for that",
    (
        "config/manifests/yaml_hazards",
        "open_nodes.discard(id(node))",
        "open_nodes.discard(id(node)) -> pass",
    ): "a node whose size is known is not looked up in the open ones",
    (
        "plan/plan_file",
        'made = f"the plan was made by kafkaform {clipped(version, 40)}; read it with that version"',
        "40 -> 41",
    ): "any number near it does",
    (
        "rules/changes",
        "added = range(int(increase.before or 0), int(increase.after or 0))",
        "increase.before or 0 -> increase.before",
    ): "numbers of partitions are known where they change",
    (
        "rules/changes",
        "added = range(int(increase.before or 0), int(increase.after or 0))",
        "increase.after or 0 -> increase.after",
    ): "numbers of partitions are known where they change",
    (
        "rules/changes",
        "added = range(int(increase.before or 0), int(increase.after or 0))",
        "0 -> 1",
    ): "numbers of partitions are known where they change",
    (
        "rules/changes",
        'count = (to_integer(observed.state.get("partitions")) if observed is not None else None) or 0',
        "0 -> 1",
    ): "for a missing topic no partition is reported, whether it has 0 or 1",
    (
        "core/units",
        (
            'size = MILLISECONDS["s"] if milliseconds < hour else '
            'MILLISECONDS["m"] if milliseconds < day else hour'
        ),
        "milliseconds < hour -> milliseconds <= hour",
    ): "exactly an hour is formatted alike in seconds and in minutes",
    (
        "core/units",
        (
            'size = MILLISECONDS["s"] if milliseconds < hour else '
            'MILLISECONDS["m"] if milliseconds < day else hour'
        ),
        "milliseconds < day -> milliseconds <= day",
    ): "exactly a day is formatted alike in minutes and in hours",
    (
        "plan/preconditions",
        'return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"',
        "len(text) <= _MAX_VALUE_LENGTH -> len(text) < _MAX_VALUE_LENGTH",
    ): "any number near it does",
    ("plan/preconditions", "_MAX_VALUE_LENGTH = 200", "200 -> 201"): "any number near it does",
    ("config/manifests/yaml12", "MAX_DIGITS = 400", "400 -> 401"): "any number near it does",
    ("config/manifests/yaml12", "_SMALL = 200", "200 -> 201"): "any number near it does",
    ("cluster/wire/large_responses", "_KNOWN_BLOCKS = 16", "16 -> 17"): "any number near it does",
    ("cluster/wire/large_responses", "_KNOWN_LENGTHS = 1_000", "1_000 -> 1001"): "any number near it does",
    (
        "cluster/wire/large_responses",
        "if len(blocks) >= _KNOWN_BLOCKS:",
        "len(blocks) >= _KNOWN_BLOCKS -> len(blocks) > _KNOWN_BLOCKS",
    ): "any number near it does",
    (
        "config/manifests/yaml_hazards",
        'return 4 * len(text) > MAX_NODES or sum(map(text.count, "[{-:?")) > MAX_DEPTH',
        "4 * len(text) > MAX_NODES -> 4 * len(text) >= MAX_NODES",
    ): "a text at the limit is read alike by the thorough parser",
    (
        "config/manifests/yaml_hazards",
        'return 4 * len(text) > MAX_NODES or sum(map(text.count, "[{-:?")) > MAX_DEPTH',
        "sum(map(text.count, \"[{-:?\")) > MAX_DEPTH -> sum(map(text.count, '[{-:?')) >= MAX_DEPTH",
    ): "a text at the limit is read alike by the thorough parser",
    (
        "plan/risk_assessment",
        'for (old, new), when in zip(sides, ("before", "after"), strict=True):',
        "True -> False",
    ): "there are two sides",
    ("plan/difference", "unseen: bool = False,", "False -> True"): "no field of a topic or a group is unseen",
    (
        "plan/difference",
        "if field.unseen_hazard is None or not field.is_unseen(change, change.before):",
        (
            "field.unseen_hazard is None or not field.is_unseen(change, change.before) -> "
            "not field.is_unseen(change, change.before)"
        ),
    ): "what is unseen has such a hazard",
    (
        "plan/measuring",
        "if field.path == PLACEMENT and field.before is not None and field.after is not None",
        (
            "field.path == PLACEMENT and field.before is not None and field.after is not None -> "
            "field.path == PLACEMENT and field.before is not None"
        ),
    ): "no plan takes a placement away; one that does is no move",
    ("plan/measuring", "_DOUBT_MS = 3_600_000", "3_600_000 -> 3600001"): "any number near it does",
    (
        "plan/measuring",
        "if setting.certain or _parse_milliseconds(setting.at) <= oldest_ms",
        "_parse_milliseconds(setting.at) <= oldest_ms -> _parse_milliseconds(setting.at) < oldest_ms",
    ): "a time that is over to the millisecond may count or not",
    (
        "plan/measuring",
        'counts = {resource.ref: int(resource.state.get("partitions") or 0) for resource in touched}',
        "resource.state.get(\"partitions\") or 0 -> resource.state.get('partitions')",
    ): "a live topic has partitions",
    (
        "plan/measuring",
        'counts = {resource.ref: int(resource.state.get("partitions") or 0) for resource in touched}',
        "0 -> 1",
    ): "a live topic has partitions",
    (
        "plan/validation",
        "for operation, objection in zip(batch, answers, strict=True):",
        "True -> False",
    ): "a cluster answers for each operation",
    (
        "plan/gate",
        'raise TypeError("changes are judged by what is known of a cluster")',
        'raise TypeError("changes are judged by what is known of a cluster") -> pass',
    ): "no caller can cause it",
    (
        "plan/risk_assessment",
        'raise TypeError(f"{earlier.ref}: what is left of a change is another change")',
        'raise TypeError(f"{earlier.ref}: what is left of a change is another change") -> pass',
    ): "no caller can cause it",
    (
        "plan/risk_assessment",
        'raise TypeError(f"{now.ref}: what is left of a change is another change")',
        'raise TypeError(f"{now.ref}: what is left of a change is another change") -> pass',
    ): "no caller can cause it",
    (
        "plan/risk_assessment",
        "elif now.assessment.risk is Risk.DESTRUCTIVE and name != was.path:",
        (
            "now.assessment.risk is Risk.DESTRUCTIVE and name != was.path -> "
            "now.assessment.risk is Risk.DESTRUCTIVE"
        ),
    ): "what is no config has the values of the plan, or the change no longer fits",
    (
        "resources/topic/risk",
        "f\"all records in the {counted(int(count or 0), 'partition')} of {name} are destroyed\",",
        "0 -> 1",
    ): "a live topic has partitions",
    (
        "resources/topic/risk",
        "f\"all records in the {counted(int(count or 0), 'partition')} of {name} are destroyed\",",
        "count or 0 -> count",
    ): "a live topic has partitions",
    (
        "resources/topic/risk",
        "fewest_after = 1 if after is None else parse_range(after)[0]",
        "0 -> 1",
    ): "a number is declared; only what is live has a range",
    (
        "resources/topic/risk",
        "fewest_after = 1 if after is None else parse_range(after)[0]",
        "1 -> 2",
    ): "where replicas change, a number is declared",
    (
        "resources/topic/config_risk",
        'if key is None or not isinstance(value, int) or value < 0 or text.endswith(")"):',
        (
            'key is None or not isinstance(value, int) or value < 0 or text.endswith(")") -> '
            "not isinstance(value, int) or value < 0 or text.endswith(')')"
        ),
    ): "no unknown config has a function that assesses it",
    (
        "resources/topic/config_risk",
        'if key is None or not isinstance(value, int) or value < 0 or text.endswith(")"):',
        (
            'key is None or not isinstance(value, int) or value < 0 or text.endswith(")") -> '
            "key is None or value < 0 or text.endswith(')')"
        ),
    ): "only a share is no integer, and is formatted alike",
    (
        "resources/topic/config_risk",
        'if key is None or not isinstance(value, int) or value < 0 or text.endswith(")"):',
        "value < 0 -> value <= 0",
    ): "0 is formatted alike in each unit",
    (
        "resources/topic/config_risk",
        'if key is None or not isinstance(value, int) or value < 0 or text.endswith(")"):',
        "0 -> 1",
    ): "0 is formatted alike in each unit",
    (
        "resources/topic/risk",
        (
            "f\"{amount} in the {counted(int(change.before.get('partitions') or 0), 'partition')} of {name} "
            'are "'
        ),
        "0 -> 1",
    ): "a live topic has partitions",
    (
        "resources/topic/risk",
        (
            "f\"{amount} in the {counted(int(change.before.get('partitions') or 0), 'partition')} of {name} "
            'are "'
        ),
        "change.before.get('partitions') or 0 -> change.before.get('partitions')",
    ): "a live topic has partitions",
    (
        "resources/topic/risk",
        "if fewest_after < 2 and (most_before is None or most_before > fewest_after):",
        "most_before > fewest_after -> most_before >= fewest_after",
    ): "a change to the same number is none",
    (
        "resources/topic/risk",
        "if before is None or after is None:",
        "before is None or after is None -> before is None and after is None",
    ): "where partitions change, both are numbers",
    (
        "resources/topic/risk",
        "if before is None or after is None:",
        "before is None or after is None -> after is None",
    ): "where partitions change, both are numbers",
    (
        "resources/topic/risk",
        "if before is None or after is None:",
        "before is None or after is None -> before is None",
    ): "where partitions change, both are numbers",
    (
        "resources/topic/risk",
        "if result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before:",
        (
            "result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before"
            " -> result is None or not isinstance(after, int) or after <= before"
        ),
    ): "where partitions change, both are numbers",
    (
        "resources/topic/risk",
        "if result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before:",
        "after <= before -> after < before",
    ): "a change to the same number is none",
    (
        "resources/topic/risk",
        "if after < before:",
        "after < before -> after <= before",
    ): "a change to the same number is none",
    (
        "plan/validation",
        "for operation in change.operations or ()",
        "change.operations or () -> change.operations",
    ): "the gate has found the operations of what it does not refuse",
    (
        "plan/validation",
        "isinstance(o, PartitionCreation) and o.assignment for o in refused",
        "isinstance(o, PartitionCreation) and o.assignment -> isinstance(o, PartitionCreation)",
    ): "the brokers reject the same operation again",
    (
        "plan/validation",
        "if time.monotonic() >= deadline:",
        "time.monotonic() >= deadline -> time.monotonic() > deadline",
    ): "a wait that is over to the millisecond may take one more reading",
    (
        "plan/validation",
        "if not isinstance(update, Update) or not all(",
        (
            "not isinstance(update, Update) or not all( isinstance(o, PartitionCreation) and o.assignment "
            "for o in refused ) -> "
            "not all((isinstance(o, PartitionCreation) and o.assignment for o in refused))"
        ),
    ): "only a manifest that lists them places a new topic's replicas, which no plan gives up",
    (
        "resources/topic/risk",
        "if result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before:",
        (
            "result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before"
            " -> result is None or not isinstance(before, int) or after <= before"
        ),
    ): "where partitions change, a number is declared",
    (
        "apply/executor",
        "for operation, outcome in zip(batch, outcomes, strict=True):",
        "True -> False",
    ): "a cluster answers every operation",
    (
        "apply/moves/reassignment",
        "self._bytes_done = self._bytes_total = 0",
        "0 -> 1",
    ): "both are counted before anything is moved",
    (
        "apply/moves/reassignment",
        ("size = max((sizes.get((*move.key, broker), 0) for broker in move.holding), default=0)"),
        "0 -> 1",
    ): "a byte more of a replica that no broker reports decides nothing",
    (
        "apply/moves/reassignment",
        (
            "min(sizes.get((*move.key, broker), 0), move.size) for move in unfinished "
            "for broker in move.adding"
        ),
        "0 -> 1",
    ): "a byte more of a replica that no broker reports is not shown",
    (
        "apply/moves/reassignment",
        "if self._context.clock.now() >= until:",
        "self._context.clock.now() >= until -> self._context.clock.now() > until",
    ): "a wait that is over to the millisecond may take one more reading",
    (
        "apply/executor",
        "elif self._clock.now() >= deadline:",
        "self._clock.now() >= deadline -> self._clock.now() > deadline",
    ): "a wait that is over to the millisecond may take one more reading",
    (
        "core/units",
        "if larger is None or milliseconds < 2 * MILLISECONDS[larger]:",
        "milliseconds < 2 * MILLISECONDS[larger] -> milliseconds <= 2 * MILLISECONDS[larger]",
    ): "exactly two of the larger unit are formatted in that unit before",
    (
        "core/units",
        "units = [unit for unit in _FORMAT_SIZE if size > 0 and size % _BYTES[unit] == 0]",
        "0 -> 1",
    ): "no unit divides 1",
}
"""Mutations without an observable effect (module, line, change), with the reasons."""
COPIED = ("kafkaform", "spark_validation", "tests", "schemas", "topics", "docs", "scripts")
LONGEST_S, LONGEST_CPU_S = 90, 30
"""A mutation that makes tests run longer counts as noticed: CI would end it."""
RECORDING = 10
"""The factor of these limits for the run without mutations: all tests run, and each line is recorded."""
MOST_MEMORY = 4 * 2**30
OURS = ("kafkaform", "spark_validation", "tests")
_OPPOSITES = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
]
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **dict(_OPPOSITES),
    **{second: first for first, second in _OPPOSITES},
}


@dataclass(frozen=True)
class Mutant:
    """A module with one mutation.

    Attributes:
        inner: Whether it is in a function; other code runs when the module is imported.
    """

    module: str
    line: int
    last_line: int
    inner: bool
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The key in `EQUIVALENT`, which does not depend on the line number."""
        whole = (ROOT / "kafkaform" / f"{self.module}.py").read_text().splitlines()[self.line - 1].strip()
        return self.module, whole, f"{' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def __str__(self) -> str:
        return f"kafkaform/{self.module}.py:{self.line}: {_short(self.before)}  ->  {_short(self.after)}"


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 90 else f"{line[:90]}…"


def list_alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the mutations of a node."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                changed = copy.deepcopy(node)
                changed.ops[index] = COMPARISONS[type(op)]()
                yield changed
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
            yield from (ast.BoolOp(op, [*values[:n], *values[n + 1 :]]) for n in range(len(values)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=keywords) if len(args) > 1:
            yield ast.Call(ast.Name("max" if name == "min" else "min"), args, keywords)
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Return(value=None) | ast.Raise():
            yield ast.Pass()
        case _:
            pass


def find_mutants(module: str) -> Iterator[Mutant]:
    """Yield every mutation of a module, without docstrings, imports, annotations and `if TYPE_CHECKING`."""
    source = (ROOT / "kafkaform" / f"{module}.py").read_text()
    raw = source.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, inner in walk_nodes(ast.parse(source)):
        if node.end_lineno is None or node.end_col_offset is None:
            continue
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        before = raw[first:last].decode()
        for alternative in list_alternatives(node):
            after = ast.unparse(ast.fix_missing_locations(copy.deepcopy(alternative)))
            text = f"({after})" if isinstance(node, ast.expr) else after
            changed = raw[:first] + text.encode() + raw[last:]
            try:
                compile(changed, module, "exec")
            except SyntaxError:
                continue  # in an f-string or a pattern, where it is not valid
            yield Mutant(module, node.lineno, node.end_lineno, inner, before, after, changed.decode())


def walk_nodes(node: ast.AST, inner: bool = False) -> Iterator[tuple[ast.expr | ast.stmt, bool]]:
    """Yield every expression and statement, and whether it is in the body of a function."""
    match node:
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log"))))
            | ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))
        ):
            return  # log messages and checks by the type checker are not tested
    if isinstance(node, ast.expr | ast.stmt):
        yield node, inner
    body = [*node.body] if isinstance(node, ast.FunctionDef) else []
    # Decorators of classes make them frozen or add slots, which tests need not notice.
    skipped = [*node.decorator_list] if isinstance(node, ast.ClassDef) else []
    for child in [child for child in ast.iter_child_nodes(node) if child not in skipped]:
        yield from walk_nodes(child, inner or child in body or isinstance(node, ast.Lambda))


def choose_mutants(count: int, seed: int, modules: list[str]) -> list[Mutant]:
    """Choose mutations from the modules in turn, so that long modules do not get most of them."""
    draw = random.Random(seed)
    pools = [list(find_mutants(module)) for module in modules]
    for number, pool in enumerate(pools):
        draw.shuffle(pool)
        pools[number] = [mutant for mutant in pool if mutant.key not in EQUIVALENT]
    mutants = [pool[turn] for turn in range(max(map(len, pools))) for pool in pools if turn < len(pool)]
    return mutants[:count]


# --- in the process of a mutation ------------------------------------------------------------------


@dataclass(frozen=True)
class MutantFinder:
    """An import finder that loads one module from its mutated text."""

    mutant: Mutant

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return the spec of the mutated module; None for others."""
        if name != f"kafkaform.{self.mutant.module.replace('/', '.')}":
            return None
        file = Path.cwd() / "kafkaform" / f"{self.mutant.module}.py"
        return spec_from_file_location(name, file, loader=_Text(name, str(file), self.mutant.source))


class _Text(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self.source = source

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return compile(self.source, self.path, "exec", dont_inherit=True)


class ReachRecorder:
    """A pytest plug-in that records the lines of a module that each test reaches, and the test's time."""

    def __init__(self, module: str, into: Path) -> None:
        self.file = str(Path.cwd() / "kafkaform" / f"{module}.py")
        self.into = into
        self.found: dict[str, tuple[float, list[int]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run one test and trace it."""
        lines: set[int] = set()

        def line(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any]:
            lines.add(frame.f_lineno)
            return line

        def call(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
            return line(frame, "", None) if frame.f_code.co_filename == self.file else None

        began = time.process_time()
        threading.settrace(call)
        sys.settrace(call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.found[item.nodeid] = time.process_time() - began, sorted(lines)

    def pytest_sessionfinish(self) -> None:
        """Write the recorded lines and times."""
        self.into.write_text(json.dumps(self.found))


@dataclass(frozen=True)
class SelectedTests:
    """A pytest plug-in that runs these tests in this order."""

    tests: Sequence[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Remove the other tests, and sort these."""
        place = {test: number for number, test in enumerate(self.tests)}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])


def run_tests(files: Sequence[str], *options: str, plugins: Sequence[object]) -> int:
    """Run tests in this process; return the exit code of pytest."""
    asked = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m", "not nightly"]
    # A golden file that a selection of tests does not use is no failure of theirs.
    asked += ["--hypothesis-profile", "quick", "--snapshot-warn-unused", *options, *files]
    return int(pytest.main(asked, plugins=[*plugins]))


def fork_process(work: Callable[[], int], longer: int) -> int:
    """Fork a process that does some work within limits and exits with its result; return the process id."""
    if child := os.fork():
        return child
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (longer * LONGEST_CPU_S, longer * LONGEST_CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        os._exit(work())
    finally:
        os._exit(99)


def run_forked(
    work: Mapping[int, Callable[[], int]], jobs: int, end: float, longer: int = 1
) -> Iterator[tuple[int, int]]:
    """Do work in processes, `jobs` at a time; yield numbers and exit codes. Long-running ones are killed.

    Args:
        end: Start none after this time, by `time.monotonic`.
        longer: The factor of the limits of time.
    """
    waiting, running = [*work], dict[int, tuple[int, float]]()
    while running or (waiting and time.monotonic() < end):
        while waiting and len(running) < jobs and time.monotonic() < end:
            number = waiting.pop(0)
            running[fork_process(work[number], longer)] = number, time.monotonic() + longer * LONGEST_S
        for child, (number, limit) in [*running.items()]:
            if time.monotonic() > limit:
                os.killpg(child, signal.SIGKILL)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[child]
                yield number, os.waitstatus_to_exitcode(status)
        time.sleep(0.02)


# --- all of it -------------------------------------------------------------------------------------


def list_test_files(module: str) -> list[str]:
    """List the files with the tests of a module."""
    return [f"tests/unit/{name}.py" for name in TESTS[module]]


def copy_tree(folder: Path) -> Path:
    """Copy the files that the tests need, so that the working tree can change meanwhile; return the copy."""
    folder.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if (file.is_file() and file.suffix in {".toml", ".yaml", ".md"}) or file.name == "Makefile":
            shutil.copy(file, folder / file.name)
    return folder


def import_libraries(modules: Sequence[str]) -> None:
    """Import all modules of the tests, and drop the project's own, which each process imports again."""
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout, stdout = nowhere, sys.stdout
        try:
            run_tests([*{file for m in modules for file in list_test_files(m)}], "--co", plugins=())
        finally:
            sys.stdout = stdout
    for name in [*sys.modules]:
        if name.partition(".")[0] in OURS:
            del sys.modules[name]
    gc.collect()
    gc.freeze()


def measure_reach(
    modules: Sequence[str], jobs: int, scratch: Path
) -> dict[str, dict[str, tuple[float, set[int]]]]:
    """Run the tests of each module without mutations; return the time and the lines of each test.

    Raises:
        RuntimeError: Some tests fail.
    """

    def work(module: str, into: Path) -> Callable[[], int]:
        temporary = f"--basetemp={into.with_suffix('.tmp')}"
        return lambda: run_tests(list_test_files(module), temporary, plugins=[ReachRecorder(module, into)])

    notes = [scratch / f"{number}.json" for number in range(len(modules))]
    everything = {n: work(module, notes[n]) for n, module in enumerate(modules)}
    ends = dict(run_forked(everything, jobs, float("inf"), RECORDING))
    if broken := [modules[number] for number, code in ends.items() if code]:
        raise RuntimeError(f"the tests of {', '.join(broken)} fail without any mutation")
    return {
        module: {test: (took, {*lines}) for test, (took, lines) in json.loads(note.read_text()).items()}
        for module, note in zip(modules, notes, strict=True)
    }


def select_tests(mutant: Mutant, reach: Mapping[str, tuple[float, set[int]]]) -> list[str]:
    """Select the tests that reach a mutation, the fastest first."""
    lines = {*range(mutant.line, mutant.last_line + 1)}
    return sorted(
        (test for test, (_, seen) in reach.items() if not mutant.inner or seen & lines),
        key=lambda test: reach[test][0],
    )


def main() -> int:
    """Run and report survivors; 1 if tests fail without mutations, or fewer are killed than required."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "modules", nargs="*", default=[*TESTS], help="such as apply/moves/reassignment (default: all)"
    )
    parser.add_argument(
        "--count", type=int, default=100, help="the number of mutations (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="the seed that selects them (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="the number of parallel processes (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes", type=float, default=10, help="start none after this time (default: %(default)s)"
    )
    parser.add_argument(
        "--least", type=float, default=0, help="fail if a smaller share is killed, in percent"
    )
    args = parser.parse_args()
    unknown = {*args.modules} - {*TESTS}
    if unknown:
        parser.error(f"no tests are listed for {', '.join(sorted(unknown))}; there are {', '.join(TESTS)}")
    began = time.monotonic()
    mutants = choose_mutants(args.count, args.seed, args.modules)
    os.environ |= {"CI": "1", "PYTHONDONTWRITEBYTECODE": ""}
    sys.dont_write_bytecode = False
    with tempfile.TemporaryDirectory(prefix="kafkaform-mutants-") as folder:
        scratch = Path(folder)
        os.chdir(copy_tree(scratch / "tree"))
        sys.path.insert(0, str(Path.cwd()))
        import_libraries(args.modules)
        try:
            reach = measure_reach(args.modules, args.jobs, scratch)
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

        def work(number: int, mutant: Mutant) -> Callable[[], int]:
            def run_mutant() -> int:
                sys.meta_path.insert(0, MutantFinder(mutant))
                temporary = f"--basetemp={scratch / str(number)}"
                plugins = [SelectedTests(select_tests(mutant, reach[mutant.module]))]
                return run_tests(list_test_files(mutant.module), temporary, plugins=plugins)

            return run_mutant

        seen = [bool(select_tests(mutant, reach[mutant.module])) for mutant in mutants]
        everything = {n: work(n, mutant) for n, mutant in enumerate(mutants) if seen[n]}
        survived = [mutant for mutant, has_tests in zip(mutants, seen, strict=True) if not has_tests]
        for mutant in survived:
            print(f"not reached by any test: {mutant}", flush=True)
        tried = len(survived)
        for number, code in run_forked(everything, args.jobs, began + 60 * args.minutes):
            tried += 1
            if code == 0:
                survived.append(mutants[number])
                print(f"survived: {mutants[number]}", flush=True)
        os.chdir(ROOT)
    share = 100 * (tried - len(survived)) / tried if tried else 0.0
    print(f"{tried - len(survived)} of {tried} mutations killed ({share:.0f} %), seed {args.seed}", end="")
    print(f"; no time for {len(mutants) - tried} others" if tried < len(mutants) else "")
    return 0 if share >= args.least and tried else 1


if __name__ == "__main__":
    sys.exit(main())
