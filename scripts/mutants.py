"""Change one line of the core modules at a time, and see whether a test notices.

Each mutation is made in a copy of this tree, and the broker-free tests of its module run on it until one
fails. The same seed makes the same mutations of the same code. A mutation that changes nothing that anybody
could see survives rightly: read what survived before you write a test.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "planner": ("plan/test_planner", "plan/test_planner_properties"),
    "gates": ("plan/test_gates", "plan/test_consent", "plan/test_planner"),
    "consent": ("plan/test_consent", "plan/test_gates"),
    "rejudging": ("plan/test_rejudging", "plan/test_planner"),
    "preconditions": ("apply/test_preconditions", "apply/test_executor"),
    "executor": ("apply/test_executor",),
    "pending": ("apply/test_executor",),
    "batches": ("apply/test_batches", "apply/test_executor"),
    "plan_file": ("plan/test_plan_file", "plan/test_plan_signature"),
    "units": ("core/test_units",),
    "kinds/topic/risk": ("resources/test_topic_risk", "plan/test_planner"),
    "rules/changes": ("rules/test_rules_changes",),
    "cluster/wire": ("cluster/test_wire", "cluster/test_topic_sources"),
    "manifests/yaml12": ("config/test_yaml12",),
    "manifests/yaml_hazards": ("config/test_yaml12",),
    "moves/mover": ("apply/test_moves_mover",),
    "moves/throttle_keeper": ("apply/test_moves_mover", "apply/test_moves_throttling"),
    "audit/trail": ("audit/test_audit_trail",),
}
"""The modules, and the tests that are to notice, the most likely first."""
COPIED = ("kafkaform", "spark_validation", "tests", "schemas", "topics", "docs", "scripts")
LONGEST_S = 90
"""A mutation that makes a test run for longer is noticed: CI would end it."""
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
    """One changed module: where, what was there, and what stands there instead."""

    module: str
    line: int
    before: str
    after: str
    source: str

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
    for node in ast.walk(ast.parse(source)):
        if (
            not isinstance(node, ast.expr | ast.stmt)
            or node.end_lineno is None
            or node.end_col_offset is None
        ):
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
            yield Mutant(module, node.lineno, before, after, changed.decode())


def chosen(count: int, seed: int, modules: list[str]) -> list[Mutant]:
    """Mutations of all modules in turn, so that a long one does not get most of them."""
    draw = random.Random(seed)
    pools = [list(mutants_of(module)) for module in modules]
    for pool in pools:
        draw.shuffle(pool)
    found = [pool[turn] for turn in range(max(map(len, pools))) for pool in pools if turn < len(pool)]
    return found[:count]


def passes(tree: Path, module: str) -> bool:
    """Whether the tests of a module pass in a tree.

    Raises:
        RuntimeError: They could not be run.
    """
    files = [f"tests/unit/{name}.py" for name in TESTS[module]]
    asked = ["-q", "-x", "-n", "0", "-m", "not kafka and not spark", "-p", "no:cacheprovider"]
    asked += ["--no-header", "--hypothesis-profile", "quick"]
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    command = [sys.executable, "-m", "pytest", *asked, *files]
    try:
        run = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return False
    if (
        run.returncode in {0, 1, 2} or run.returncode < 0
    ):  # 2: it cannot even be imported; below 0: it crashes
        return run.returncode == 0
    raise RuntimeError(f"pytest ended with {run.returncode}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")


def tree_at(folder: Path) -> Path:
    """A copy of what the tests need, in a folder of its own."""
    folder.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (
        "pyproject.toml",
        "kafkaform.yaml",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Makefile",
    ):
        shutil.copy(ROOT / file, folder / file)
    return folder


def main() -> int:
    """Run, and say what survived; 0 unless tests fail as they are, or fewer were killed than asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "modules", nargs="*", default=[*TESTS], help="such as moves/mover; all of them otherwise"
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
    end = time.monotonic() + 60 * args.minutes
    mutants = chosen(args.count, args.seed, args.modules)
    with tempfile.TemporaryDirectory(prefix="kafkaform-mutants-") as scratch:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(args.jobs):
            trees.put(tree_at(Path(scratch) / str(number)))

        def survives(mutant: Mutant | None, module: str) -> bool | None:
            """None: there was no time left for it."""
            if time.monotonic() > end:
                return None
            tree = trees.get()
            file = tree / "kafkaform" / f"{module}.py"
            original = file.read_text()
            try:
                file.write_text(original if mutant is None else mutant.source)
                return passes(tree, module)
            finally:
                file.write_text(original)
                trees.put(tree)

        with ThreadPoolExecutor(args.jobs) as pool:
            if False in (sound := [*pool.map(survives, [None] * len(args.modules), args.modules)]):
                broken = [name for name, one in zip(args.modules, sound, strict=True) if one is False]
                print(f"error: the tests of {', '.join(broken)} fail without any mutation", file=sys.stderr)
                return 1
            fates = pool.map(survives, mutants, [mutant.module for mutant in mutants])
            tried = survived = 0
            for mutant, fate in zip(mutants, fates, strict=True):
                tried += fate is not None
                if fate:
                    survived += 1
                    print(f"survived: {mutant}", flush=True)
    share = 100 * (tried - survived) / tried if tried else 0.0
    print(f"{tried - survived} of {tried} mutations killed ({share:.0f} %), seed {args.seed}", end="")
    print(f"; no time for {len(mutants) - tried}" if tried < len(mutants) else "")
    return 0 if share >= args.least and tried else 1


if __name__ == "__main__":
    sys.exit(main())
