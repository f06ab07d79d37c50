"""Draw a flame graph of a plan from the samples of the profiler py-spy.

Needs py-spy (`pip install py-spy`). The cluster and the manifests are those of `benchmarks.plan`. The graph
is plain SVG without scripts; the tooltip of a frame names it. The width of a frame is the share of samples in
which it, or a function that it called, ran; threads are drawn side by side, without their idle time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import KAFKAFORM
from benchmarks.scene import PARTITIONS, create_topics, start_brokers, write_config, write_manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH, _ROW, _MARGIN = 1_200, 17, 10
_CHARACTER = 6.2
"""The width of a character of the labels, in pixels."""
_LEAST = 0.002
"""Frames with a smaller share are omitted."""
_STARTING = re.compile(r"<module>|_run_module|_run_code|click/core\.py|cli/main\.py|_bootstrap|Thread\.run")
"""Frames that only call others and are the same in each command, which are omitted."""
_COLOURS = {
    "kafkaform/config/": "#8ecae6",
    "kafkaform/rules/": "#ffb703",
    "kafkaform/cluster/": "#90be6d",
    "kafkaform/resources/": "#bdb2ff",
    "kafkaform/": "#f4a261",
    "importlib": "#d9d9d9",
    "": "#eeeeee",
}
"""The colour of a frame by the prefix of its file; other libraries are grey."""


@dataclass
class Frame:
    """A function at one place of the stack.

    Attributes:
        samples: The number of samples that it is in.
        below: The functions that it called, by name.
    """

    samples: int = 0
    below: dict[str, Frame] = field(default_factory=dict)


def main() -> int:
    """Profile plans and draw their flame graph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=5, help="the number of runs whose samples are added")
    parser.add_argument("--out", type=Path, default=Path("docs/plan-5000.svg"))
    options = parser.parse_args()
    profiler = shutil.which("py-spy")
    if profiler is None:
        sys.exit("bench: py-spy is not installed; run: pip install py-spy")
    with start_brokers(options.topics * PARTITIONS) as (folder, kafka):
        create_topics(kafka, options.topics)
        manifests = write_manifests(folder / "topics", options.topics)
        config = write_config(folder, kafka)
        plan = [*KAFKAFORM, "plan", str(manifests), "--config", str(config), "--cluster", "plaintext"]
        stacks: Counter[str] = Counter()
        for number in range(options.runs):
            taken = folder / f"stacks-{number}"
            record = [profiler, "record", "--rate", "500", "--format", "raw", "--output", str(taken), "--"]
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            with (folder / "plan.json").open("wb") as output:
                subprocess.run(
                    [*record, *plan, "--format", "json", "--no-strict"],
                    stdout=output,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    check=True,
                )
            for line in taken.read_text().splitlines():
                stack, _, samples = line.rpartition(" ")
                stacks[stack] += int(samples)
    title = f"kafkaform plan of {options.topics:,} topics"
    options.out.write_text(render_svg(build_tree(stacks), title), "utf-8")
    return 0


def build_tree(stacks: Counter[str]) -> Frame:
    """Build the tree of all stacks, without line numbers and omitted frames."""
    root = Frame()
    for stack, samples in stacks.items():
        frame = root
        frame.samples += samples
        for name in _list_functions(stack):
            frame = frame.below.setdefault(name, Frame())
            frame.samples += samples
    return root


def _list_functions(stack: str) -> Iterator[str]:
    """Yield the functions of a stack with their files; nested imports and direct recursion once."""
    last = ""
    for frame in stack.split(";"):
        # py-spy names files relative to Python's path; of other files, keep the name only.
        name = re.sub(r"\((?:/.*/)?([^():]+)(?::\d+)?\)$", r"(\1)", frame)
        if "<frozen importlib" in name:
            name = "import (importlib)"
        elif _STARTING.search(name):
            continue
        if name != last:
            yield name
        last = name


def render_svg(root: Frame, title: str) -> str:
    """Render the graph as SVG."""
    rows = list(_render_rects(root, _MARGIN, _WIDTH - 2 * _MARGIN, 0, root.samples))
    height = _ROW * (3 + max(row for row, _ in rows)) + 2 * _MARGIN
    body = "".join(text.replace("@Y", str(_MARGIN + _ROW * (2 + row))) for row, text in rows)
    legend = "".join(
        f'<rect x="{420 + 130 * number}" y="{_MARGIN}" width="12" height="12" fill="{colour}"/>'
        f'<text x="{437 + 130 * number}" y="{_MARGIN + 10}">{name}</text>'
        for number, (name, colour) in enumerate(
            [
                ("manifests, config", _COLOURS["kafkaform/config/"]),
                ("rules", _COLOURS["kafkaform/rules/"]),
                ("the cluster", _COLOURS["kafkaform/cluster/"]),
                ("kinds", _COLOURS["kafkaform/resources/"]),
                ("other kafkaform", _COLOURS["kafkaform/"]),
                ("libraries", _COLOURS[""]),
            ]
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="monospace" font-size="10.5">\n'
        f'<title>{title}</title>\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="{_MARGIN}" y="{_MARGIN + 10}" font-size="13">{title}: {root.samples:,} samples</text>\n'
        f"{legend}\n{body}</svg>\n"
    )


def _render_rects(frame: Frame, x: float, width: float, row: int, total: int) -> Iterator[tuple[int, str]]:
    each = width / frame.samples
    for name, below in sorted(frame.below.items(), key=lambda item: (-item[1].samples, item[0])):
        own = below.samples * each
        if below.samples >= total * _LEAST:
            room = int(own / _CHARACTER) - 1
            function = name.rpartition(" (")[0]
            label = function if len(function) <= room else f"{function[: room - 1]}…" if room > 3 else ""
            file = name.rpartition("(")[2]
            colour = next(colour for start, colour in _COLOURS.items() if file.startswith(start))
            text = f'<text x="{x + 3:.1f}" y="@Y" dy="12">{escape(label)}</text>' if label else ""
            yield (
                row,
                (
                    f'<g><title>{escape(name)}: {below.samples / total:.1%}</title><rect x="{x:.1f}" y="@Y" '
                    f'width="{own:.1f}" height="{_ROW - 1}" fill="{colour}" stroke="#ffffff" '
                    f'stroke-width="0.5"/>{text}</g>\n'
                ),
            )
            yield from _render_rects(below, x, own, row + 1, total)
        x += own


if __name__ == "__main__":
    sys.exit(main())
