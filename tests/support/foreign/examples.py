"""A file of each other tool, after its public examples, and the ACLs that the tool creates for it.

The ACLs were written down by hand from the sources of each tool, one a line: the principal, the permission,
the operation, and the type, pattern, name and host.
"""

from __future__ import annotations

from pathlib import Path

from kafkaform.core.acls import Acl, ResourceType

FOLDER = Path(__file__).parent
EXAMPLES = {path.stem: path for path in FOLDER.iterdir() if path.suffix in {".yaml", ".json"}}
NAME = "shop"
"""The start of all names."""


def list_acls(tool: str, name: str = NAME) -> list[Acl]:
    """The ACLs that a tool creates, with another start of all names."""
    lines = (FOLDER / f"{tool}.acls").read_text("utf-8").replace(NAME, name).splitlines()
    return [_parse(*line.split()) for line in lines]


def _parse(
    principal: str, permission: str, operation: str, kind: str, pattern: str, name: str, host: str
) -> Acl:
    return Acl(
        ResourceType(kind.lower().replace("_", "-")),
        name,
        pattern == "PREFIXED",
        principal,
        host,
        "".join(part.capitalize() for part in operation.split("_")),
        permission == "allow",
    )
