"""Print the part of CHANGELOG.md that is about a release: `release_notes.py v0.1.0`.

Exits 1 if the tag is not the version of the source, or the changelog has nothing about it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print the notes of the tag that is given."""
    [tag] = sys.argv[1:]
    source = (ROOT / "kafkaform" / "__init__.py").read_text("utf-8")
    [version] = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    if tag != f"v{version}":
        print(f"the tag {tag} is not v{version}, the version in kafkaform/__init__.py", file=sys.stderr)
        return 1
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    for section in sections[1:]:
        heading, _, notes = section.partition("\n")
        if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", heading) and notes.strip():
            print(notes.strip())
            return 0
    print(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD', or nothing in it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
