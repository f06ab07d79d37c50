"""Keys on which hashes may differ."""

import random
import uuid

SMALLEST = b"19d2100h"
"""Its FNV-1a is the smallest signed number, which has no absolute value of 32 bits."""


def build_varied_keys() -> list[bytes]:
    """Keys of each length from 0 to 300, with low and high bytes, and what applications really use."""
    drawn = random.Random(20_261_101)
    keys = [drawn.randbytes(length) for length in range(301) for _ in range(4)]
    keys += [bytes([byte]) * length for byte in (0x00, 0x7F, 0x80, 0xFF) for length in range(1, 18)]
    keys += [b"order-%d" % number for number in range(500)]
    keys += [text.encode() for text in ("Straße", "ключ", "注文", "🔑🔑", "a\u0301", "\x00", " ")]
    keys += [uuid.UUID(int=drawn.getrandbits(128)).bytes for _ in range(100)]
    keys += [number.to_bytes(8, "big", signed=True) for number in (-(2**63), -1, 0, 1, 2**63 - 1)]
    keys.append(SMALLEST)
    return keys
