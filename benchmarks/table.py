"""What a benchmark leaves: a line on the screen, and a file in `results/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def tell(name: str, headings: tuple[str, ...], row: Mapping[str, float]) -> None:
    """Print a row under its headings, and keep it as `results/NAME.json`."""
    print(" ".join(f"{heading:>9}" for heading in headings))
    print(" ".join(f"{value:>9.4g}" for value in row.values()))
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / f"{name}.json").write_text(json.dumps({"rows": [row]}, indent=2))
