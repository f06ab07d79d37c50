"""A tally as bytes, from a reducer to the driver."""

from __future__ import annotations

import io
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_validation.tally import HotKey, Layout, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator


def pack(tally: Tally) -> bytes:
    """A tally as bytes: arrays in NumPy's own format, nothing that could run."""
    arrays: dict[str, Any] = {}
    for field in fields(tally):
        if field.name not in {"placements", "hot"}:
            arrays[field.name] = np.asarray(getattr(tally, field.name))
    for count, placement in tally.placements.items():
        for field in fields(placement):
            arrays[f"placement/{count}/{field.name}"] = np.asarray(getattr(placement, field.name))
    for number, key in enumerate(tally.hot):
        cells = np.flatnonzero(key.records.reshape(-1))
        arrays[f"hot/{number}/digest"] = np.frombuffer(bytes.fromhex(key.digest), np.uint8)
        arrays[f"hot/{number}/cells"] = np.stack(
            [cells, key.records.reshape(-1)[cells], key.bytes.reshape(-1)[cells]]
        )
        arrays[f"hot/{number}/length"] = np.array([key.length, key.key is not None])
        arrays[f"hot/{number}/key"] = np.frombuffer(key.key or b"", np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def unpack(data: bytes, layout: Layout) -> Tally:
    """The tally of `pack`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        tally = Tally.empty(layout)
        for field in fields(tally):
            if field.name not in {"placements", "hot"}:
                value = arrays[field.name]
                setattr(tally, field.name, int(value) if value.ndim == 0 else value)
        for count, placement in tally.placements.items():
            for field in fields(placement):
                value = arrays[f"placement/{count}/{field.name}"]
                setattr(placement, field.name, int(value) if value.ndim == 0 else value)
        tally.hot = list(_hot_of(arrays, tally.records.shape))
    return tally


def _hot_of(arrays: Any, shape: tuple[int, ...]) -> Iterator[HotKey]:
    number = 0
    while f"hot/{number}/digest" in arrays:
        cells, records, size = arrays[f"hot/{number}/cells"]
        by_records, by_bytes = np.zeros((2, int(np.prod(shape))), dtype=np.int64)
        by_records[cells], by_bytes[cells] = records, size
        length, shown = arrays[f"hot/{number}/length"]
        key = arrays[f"hot/{number}/key"].tobytes() if shown else None
        digest = arrays[f"hot/{number}/digest"].tobytes().hex()
        yield HotKey(digest, int(length), key, by_records.reshape(shape), by_bytes.reshape(shape))
        number += 1
