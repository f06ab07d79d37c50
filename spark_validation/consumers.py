"""The consumer group that Spark reads with."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP_ID = "kafkaform-skew"
"""What its name starts with. It never commits, so no broker knows it."""

_SALT = os.urandom(16)


def group_id(options: Mapping[str, str]) -> str:
    """One group for all windows that are read with the same properties, and another for others.

    Spark then keeps one consumer for each partition, instead of one for each window. Consumers of one group
    must be made alike: where they are not, Spark's error prints every property of both, passwords too.

    Args:
        options: What consumers are made with; secrets among them, which is why the name is salted.
    """
    text = json.dumps(sorted(options.items())).encode()
    return f"{GROUP_ID}-{hmac.new(_SALT, text, hashlib.sha256).hexdigest()[:12]}"
