"""Change one line of the core modules at a time, and see whether a test notices.

The unit tests of each module run once, to see which lines each of them reaches. Then each mutation gets a
process, forked from one that has imported all libraries, in which the tests that reach its line run, the
fastest first, until one fails. Tests that start processes of their own do not see mutations. The same seed
makes the same mutations of the same code. A mutation that changes nothing that anybody could see survives
rightly: read what survived before you write a test, and list it in `EQUIVALENT` with the reason if there is
none to be written.
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
TESTS = {
    "plan/planner": (
        "plan/test_planner",
        "plan/test_planner_properties",
        "plan/test_planning",
        "plan/test_planning_groups",
        "plan/test_placement_planning",
        "inspect/test_drift",
    ),
    "plan/policy": (
        "plan/test_policy",
        "plan/test_consent",
        "plan/test_planner",
        "rules/test_rules_suggestions",
    ),
    "resources/consent": (
        "plan/test_consent",
        "plan/test_policy",
        "plan/test_planner",
        "rules/test_rules_suggestions",
    ),
    "plan/measuring": ("plan/test_planning", "plan/test_planning_groups", "plan/test_placement_planning"),
    "plan/rejudging": ("plan/test_rejudging", "plan/test_planner"),
    "apply/preconditions": ("apply/test_preconditions", "apply/test_executor"),
    "apply/executor": ("apply/test_executor", "plan/test_planning_groups"),
    "apply/change_execution": ("apply/test_executor", "plan/test_planning_groups"),
    "core/operations": ("core/test_batches", "apply/test_executor"),
    "plan/plan_file": ("plan/test_plan_file", "plan/test_plan_signature"),
    "core/units": ("core/test_units",),
    "resources/topic/risk": ("resources/test_topic_risk", "plan/test_planner"),
    "resources/topic/config_risk": ("resources/test_topic_risk", "plan/test_planner"),
    "rules/changes": ("rules/test_rules_changes",),
    "cluster/wire/large_answers": ("cluster/test_wire", "cluster/test_topic_sources"),
    "config/manifests/yaml12": ("config/test_yaml12", "config/test_loader"),
    "config/manifests/yaml_hazards": ("config/test_yaml12",),
    "apply/moves/reassignment": ("apply/test_moves_reassignment", "apply/test_executor"),
    "apply/moves/throttles": (
        "apply/test_executor",
        "apply/test_moves_reassignment",
        "apply/test_moves_throttling",
    ),
    "audit/trail": ("audit/test_audit_trail",),
}
"""The modules, and the tests that are to notice, the most likely first."""
EQUIVALENT = {
    (
        "core/operations",
        "MAX_WEIGHT = 5_000",
        "5_000 -> 5001",
    ): "any number near it does",
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
        "if not checked and (node.tag != UNTAGGED or depth > MAX_DEPTH):",
        "node.tag != UNTAGGED -> node.tag == UNTAGGED",
    ): "what the fast way does not take, the thorough one reads as well",
    (
        "config/manifests/yaml12",
        "if not checked and (node.tag != UNTAGGED or depth > MAX_DEPTH):",
        "not checked and (node.tag != UNTAGGED or depth > MAX_DEPTH) -> not checked",
    ): "what the fast way does not take, the thorough one reads as well",
    (
        "config/manifests/yaml_hazards",
        "height = max(height, heights.get(id(child), 0))",
        "0 -> 1",
    ): "only a node that holds itself has no height yet, and is refused for that",
    (
        "config/manifests/yaml_hazards",
        "open_nodes.discard(id(node))",
        "open_nodes.discard(id(node)) -> pass",
    ): "a node whose size is known is not looked for among the open ones",
    (
        "plan/plan_file",
        'made = f"the plan was made by kafkaform {clipped(version, 40)}; read it with that version"',
        "40 -> 41",
    ): "any number near it does",
    (
        "rules/changes",
        "return count if isinstance(count, int) else 0",
        "0 -> 1",
    ): "of a topic that is not there no partition is reported, with 0 or 1 of them",
    (
        "core/units",
        "if larger is None or milliseconds < 2 * sizes[larger]:",
        "milliseconds < 2 * sizes[larger] -> milliseconds <= 2 * sizes[larger]",
    ): "what is two of the larger unit was written in that unit before",
}
"""Mutations that change nothing that anybody could see (module, line, what of it), and why."""
COPIED = ("kafkaform", "spark_validation", "tests", "schemas", "topics", "docs", "scripts")
LONGEST_S = 90
LONGEST_CPU_S = 30
"""A mutation that makes tests run for longer is noticed: CI would end it."""
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
    """One changed module: where, what was there, and what stands there instead.

    Attributes:
        inner: It is within a function; what is not runs when the module is imported.
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
        """What it is known by in `EQUIVALENT`, wherever it stands in its module."""
        whole = (ROOT / "kafkaform" / f"{self.module}.py").read_text().splitlines()[self.line - 1].strip()
        return self.module, whole, f"{' '.join(self.before.split())} -> {' '.join(self.after.split())}"

    def __str__(self) -> str:
        return f"kafkaform/{self.module}.py:{self.line}: {_short(self.before)}  ->  {_short(self.after)}"


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 90 else f"{line[:90]}…"


def alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
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
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log"))))
            | ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))
        ):
            pass  # what --debug shows besides is for whoever looks for a fault
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Return(value=None) | ast.Raise():
            yield ast.Pass()
        case _:
            pass


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutation of a module; docstrings, imports, annotations and `if TYPE_CHECKING` stay."""
    source = (ROOT / "kafkaform" / f"{module}.py").read_text()
    raw = source.encode()
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, inner in nodes_of(ast.parse(source)):
        if node.end_lineno is None or node.end_col_offset is None:
            continue
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        before = raw[first:last].decode()
        for other in alternatives(node):
            after = ast.unparse(ast.fix_missing_locations(copy.deepcopy(other)))
            text = f"({after})" if isinstance(node, ast.expr) else after
            changed = raw[:first] + text.encode() + raw[last:]
            try:
                compile(changed, module, "exec")
            except SyntaxError:
                continue  # within an f-string or a pattern, where it cannot stand
            yield Mutant(module, node.lineno, node.end_lineno, inner, before, after, changed.decode())


def nodes_of(node: ast.AST, inner: bool = False) -> Iterator[tuple[ast.expr | ast.stmt, bool]]:
    """Every expression and statement, and whether it is within the body of a function."""
    if isinstance(node, ast.expr | ast.stmt):
        yield node, inner
    body = [*node.body] if isinstance(node, ast.FunctionDef) else []
    # Decorators of classes say that they are frozen or have slots: no test can be expected to notice that.
    skipped = [*node.decorator_list] if isinstance(node, ast.ClassDef) else []
    for child in [child for child in ast.iter_child_nodes(node) if child not in skipped]:
        yield from nodes_of(child, inner or child in body or isinstance(node, ast.Lambda))


def chosen(count: int, seed: int, modules: list[str]) -> list[Mutant]:
    """Mutations of all modules in turn, so that a long one does not get most of them."""
    draw = random.Random(seed)
    pools = [list(mutants_of(module)) for module in modules]
    for number, pool in enumerate(pools):
        draw.shuffle(pool)
        pools[number] = [mutant for mutant in pool if mutant.key not in EQUIVALENT]
    found = [pool[turn] for turn in range(max(map(len, pools))) for pool in pools if turn < len(pool)]
    return found[:count]


# --- in the process of a mutation ------------------------------------------------------------------


@dataclass(frozen=True)
class Changed:
    """Imports one module from a text of its own."""

    mutant: Mutant

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """How to import the module; None for others."""
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


class Reach:
    """A plug-in of pytest that writes down which lines of a module each test reaches, and in what time."""

    def __init__(self, module: str, into: Path) -> None:
        self.file = str(Path.cwd() / "kafkaform" / f"{module}.py")
        self.into = into
        self.found: dict[str, tuple[float, list[int]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Run one test."""
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
        """Hand it on."""
        self.into.write_text(json.dumps(self.found))


@dataclass(frozen=True)
class Chosen:
    """A plug-in of pytest that runs these tests in this order."""

    tests: Sequence[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others."""
        place = {test: number for number, test in enumerate(self.tests)}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda i: place[i.nodeid])


def run_tests(files: Sequence[str], *options: str, plugins: Sequence[object]) -> int:
    """Run tests in this process, and tell nothing but the exit code."""
    asked = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m", "not nightly"]
    asked += ["--hypothesis-profile", "quick", *options, *files]
    return int(pytest.main(asked, plugins=[*plugins]))


def forked(work: Callable[[], int]) -> int:
    """Begin a process that does this work within bounds, and exits with what it returns; gives its id."""
    if child := os.fork():
        return child
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_CPU_S, LONGEST_CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        os._exit(work())
    finally:
        os._exit(99)


def carried_out(work: Mapping[int, Callable[[], int]], jobs: int, end: float) -> Iterator[tuple[int, int]]:
    """Do the work in processes, so many at a time: its number and exit code; what takes long is killed."""
    waiting, running = [*work], dict[int, tuple[int, float]]()
    while running or (waiting and time.monotonic() < end):
        while waiting and len(running) < jobs and time.monotonic() < end:
            number = waiting.pop(0)
            running[forked(work[number])] = number, time.monotonic() + LONGEST_S
        for child, (number, limit) in [*running.items()]:
            if time.monotonic() > limit:
                os.killpg(child, signal.SIGKILL)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del running[child]
                yield number, os.waitstatus_to_exitcode(status)
        time.sleep(0.02)


# --- all of it -------------------------------------------------------------------------------------


def files_of(module: str) -> list[str]:
    """The files with the tests of a module."""
    return [f"tests/unit/{name}.py" for name in TESTS[module]]


def tree_at(folder: Path) -> Path:
    """A copy of what the tests need, in a folder of its own: the tree may be worked on meanwhile."""
    folder.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if (file.is_file() and file.suffix in {".toml", ".yaml", ".md"}) or file.name == "Makefile":
            shutil.copy(file, folder / file.name)
    return folder


def import_libraries(modules: Sequence[str]) -> None:
    """Import what the tests do, and forget what is ours: each process imports that anew, and its mutation."""
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout, told = nowhere, sys.stdout
        try:
            run_tests([*{file for m in modules for file in files_of(m)}], "--co", plugins=())
        finally:
            sys.stdout = told
    for name in [*sys.modules]:
        if name.partition(".")[0] in OURS:
            del sys.modules[name]
    gc.collect()
    gc.freeze()


def reached(modules: Sequence[str], jobs: int, scratch: Path) -> dict[str, dict[str, tuple[float, set[int]]]]:
    """Run the tests of each module as it is: the time that each takes, and the lines that it reaches.

    Raises:
        RuntimeError: Some fail.
    """

    def work(module: str, into: Path) -> Callable[[], int]:
        temporary = f"--basetemp={into.with_suffix('.tmp')}"
        return lambda: run_tests(files_of(module), temporary, plugins=[Reach(module, into)])

    notes = [scratch / f"{number}.json" for number in range(len(modules))]
    everything = {n: work(module, notes[n]) for n, module in enumerate(modules)}
    ends = dict(carried_out(everything, jobs, float("inf")))
    if broken := [modules[number] for number, code in ends.items() if code]:
        raise RuntimeError(f"the tests of {', '.join(broken)} fail without any mutation")
    return {
        module: {test: (took, {*lines}) for test, (took, lines) in json.loads(note.read_text()).items()}
        for module, note in zip(modules, notes, strict=True)
    }


def tests_for(mutant: Mutant, reach: Mapping[str, tuple[float, set[int]]]) -> list[str]:
    """The tests that reach a mutation, the fastest first."""
    lines = {*range(mutant.line, mutant.last_line + 1)}
    return sorted(
        (test for test, (_, seen) in reach.items() if not mutant.inner or seen & lines),
        key=lambda test: reach[test][0],
    )


def main() -> int:
    """Run, and say what survived; 0 unless tests fail as they are, or fewer were killed than asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "modules", nargs="*", default=[*TESTS], help="such as apply/moves/reassignment; all of them otherwise"
    )
    parser.add_argument("--count", type=int, default=100, help="how many mutations (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=10, help="begin no more after (default: %(default)s)"
    )
    parser.add_argument(
        "--least", type=float, default=0, help="fail below this share of killed ones, in percent"
    )
    args = parser.parse_args()
    unknown = {*args.modules} - {*TESTS}
    if unknown:
        parser.error(f"no tests are listed for {', '.join(sorted(unknown))}; there are {', '.join(TESTS)}")
    began = time.monotonic()
    mutants = chosen(args.count, args.seed, args.modules)
    os.environ |= {"CI": "1", "PYTHONDONTWRITEBYTECODE": ""}
    sys.dont_write_bytecode = False
    with tempfile.TemporaryDirectory(prefix="kafkaform-mutants-") as folder:
        scratch = Path(folder)
        os.chdir(tree_at(scratch / "tree"))
        sys.path.insert(0, str(Path.cwd()))
        import_libraries(args.modules)
        try:
            reach = reached(args.modules, args.jobs, scratch)
        except RuntimeError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

        def work(number: int, mutant: Mutant) -> Callable[[], int]:
            def tried() -> int:
                sys.meta_path.insert(0, Changed(mutant))
                temporary = f"--basetemp={scratch / str(number)}"
                plugins = [Chosen(tests_for(mutant, reach[mutant.module]))]
                return run_tests(files_of(mutant.module), temporary, plugins=plugins)

            return tried

        seen = [bool(tests_for(mutant, reach[mutant.module])) for mutant in mutants]
        everything = {n: work(n, mutant) for n, mutant in enumerate(mutants) if seen[n]}
        survived = [mutant for mutant, one in zip(mutants, seen, strict=True) if not one]
        for mutant in survived:
            print(f"no test is there: {mutant}", flush=True)
        tried = len(survived)
        for number, code in carried_out(everything, args.jobs, began + 60 * args.minutes):
            tried += 1
            if code == 0:
                survived.append(mutants[number])
                print(f"survived: {mutants[number]}", flush=True)
        os.chdir(ROOT)
    share = 100 * (tried - len(survived)) / tried if tried else 0.0
    print(f"{tried - len(survived)} of {tried} mutations killed ({share:.0f} %), seed {args.seed}", end="")
    print(f"; no time for {len(mutants) - tried}" if tried < len(mutants) else "")
    return 0 if share >= args.least and tried else 1


if __name__ == "__main__":
    sys.exit(main())
