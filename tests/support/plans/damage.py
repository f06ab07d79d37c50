"""Damage to a JSON document, one at a time: what happens to files, and what nobody writes by accident."""

import re

_INTEGER = r"(?<=: )(\d+)(?=[,}\]])"
_STRING = r'(?<=: )"((?:[^"\\]|\\.)*)"(?=[,}\]])'


def damage_json(text: str) -> dict[str, list[bytes]]:
    """Damage the text of a document of one line in every place, by the kind of the damage."""

    def replace_each(pattern: str, damaged: str) -> list[str]:
        return [
            f"{text[: match.start()]}{match.expand(damaged)}{text[match.end() :]}"
            for match in re.finditer(pattern, text)
        ]

    deep = "[" * 900 + "]" * 900
    damaged = {
        "truncated": [text[:end] for end in range(0, len(text) - 1, 97)],
        "something else": ["", " ", "[]", "null", "3", '"plan"', "{}", "not json", "\0"],
        "no format": [
            f'{{"format_version": {value}}}' for value in ("true", "0", "-1", "null", "[1]", '"1"')
        ],
        "deep": ["[" * 200_000, '{"a":' * 200_000, deep, *replace_each(_INTEGER, deep)],
        "fraction": ["1.5", *replace_each(_INTEGER, r"\1.0"), *replace_each(_INTEGER, r"\1e0")],
        "huge": ["9" * 5000, f"{2**63 + 1}", f"-{2**63 + 1}", "1e400", *replace_each(_INTEGER, "1" * 400)],
        "not a number": [
            damage
            for name in ("NaN", "Infinity", "-Infinity")
            for damage in (name, *replace_each(_INTEGER, name))
        ],
        "half of a pair": [
            *replace_each(_STRING, r'"\1\\ud800"'),
            *replace_each(_STRING, r'"\\udfff\\\\\1"'),
            *replace_each(r'"(\w+)": ', r'"\1\\udbff": '),
        ],
        "byte order mark": [f"\ufeff{text}"],
        "duplicate key": [
            *replace_each(r'("\w+"): ("[^"]*"|\d+)(?=[,}])', r"\1: \2, \1: \2"),
            text.replace('"format_version": 1', '"format_version": 1, "format\\u005fversion": 2'),
        ],
        "wrong type": [*replace_each(_INTEGER, "{}"), *replace_each(_STRING, "[1]")],
    }
    assert all(damaged.values())
    whole = text.encode()
    return {
        **{kind: [item.encode() for item in texts] for kind, texts in damaged.items()},
        "not UTF-8": [whole[:at] + b"\xff" + whole[at:] for at in range(0, len(whole), 499)],
    }
