"""The output of a benchmark: a table on standard output, and a file in `results/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def report_rows(name: str, headings: Sequence[str], *rows: Mapping[str, float | str]) -> None:
    """Print rows below their headings, and write them to `results/NAME.json`."""
    cells = [headings, *[[_format_cell(value) for value in row.values()] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps({"rows": rows}, indent=2))


def _format_cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
