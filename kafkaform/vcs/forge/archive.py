"""The plan in an artefact: one file out of a small zip archive, read in memory and never unpacked."""

from __future__ import annotations

import io
import zipfile
import zlib

from kafkaform.core.errors import ForgeError

NAME = "plan.json"
LARGEST_ARCHIVE = 64 * 1024**2
LARGEST_PLAN = 256 * 1024**2
"""Bytes; the plan of ten thousand new topics is less than a tenth of that."""

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""What upload-artifact uses, and what can be unpacked piece by piece."""


def read_plan(archive: bytes) -> str:
    """The text of the one plan.json in an archive; other files in it are not looked at.

    Raises:
        ForgeError: It is no zip archive, or has no plan.json, several of them, or one that is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            plans = [entry for entry in opened.infolist() if entry.filename == NAME]
            if len(plans) != 1:
                raise ForgeError(f"the artefact has {len(plans) or 'no'} files named {NAME}, and not one")
            (entry,) = plans
            if entry.file_size > LARGEST_PLAN:
                raise too_large(NAME, entry.file_size, LARGEST_PLAN)
            if entry.compress_type not in _METHODS:
                raise ForgeError(f"the artefact's {NAME} is compressed in an unusual way")
            with opened.open(entry) as plan:
                # A size bounds what is unpacked, where the declared one is a lie; without, zipfile does all.
                return plan.read(entry.file_size + 1).decode("utf-8")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ForgeError(f"the artefact cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ForgeError(f"the artefact's {NAME} is not UTF-8") from error


def too_large(what: str, size: int, limit: int) -> ForgeError:
    """What to say of something that is not read because of its size, in bytes."""
    return ForgeError(f"{what} has {size:,} bytes; more than {limit:,} are not read")
