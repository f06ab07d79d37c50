"""Pages in a real browser without a window, as a reader's own would draw them."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from tests.support.required import program

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 90
_SCHEMES = {"dark": 0, "light": 1}


def browser() -> str:
    """The browser that is installed; see `program` for what happens if there is none."""
    return program("browser", *NAMES)


def screenshot(page: Path, image: Path, *, width: int, height: int, scheme: str = "light") -> Picture:
    """The page as it looks in a window of that size; the image is kept in the file."""
    _run(page, f"--screenshot={image}", width=width, height=height, scheme=scheme)
    return picture(image.read_bytes())


def document(page: Path, *, width: int, height: int = 900) -> str:
    """The page's document as HTML, after its scripts have run."""
    return _run(page, "--dump-dom", width=width, height=height, scheme="light")


def _run(page: Path, action: str, *, width: int, height: int, scheme: str) -> str:
    with tempfile.TemporaryDirectory(prefix="kafkaform-browser", ignore_cleanup_errors=True) as profile:
        command = [
            browser(),
            "--headless=new",
            # A container has neither the rights nor the shared memory that its sandbox wants.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={profile}",
            f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}",
            f"--window-size={width},{height}",
            action,
            page.as_uri(),
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            output, errors = process.communicate(timeout=SECONDS)
        finally:
            # Its helpers are in its session and outlive it when it is killed.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    assert process.returncode == 0, errors
    return output


@dataclass(frozen=True, slots=True)
class Picture:
    """The rows of an image, each pixel as red, green and blue of 0 to 255."""

    width: int
    height: int
    rows: tuple[bytes, ...]

    def luminance(self, x: int, y: int) -> float:
        """The relative luminance of a pixel as WCAG has it, 0 for black and 1 for white."""
        red, green, blue = self.rows[y][3 * x : 3 * x + 3]
        return luminance(red, green, blue)

    def colours(self) -> set[bytes]:
        """Every colour that occurs."""
        return {row[start : start + 3] for row in self.rows for start in range(0, len(row), 3)}


def luminance(*colour: int) -> float:
    """The relative luminance of a colour, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = [one / 255 for one in colour]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """The contrast ratio of two colours, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    low, high = sorted((luminance(*one), luminance(*other)))
    return (high + 0.05) / (low + 0.05)


def picture(png: bytes) -> Picture:
    """A PNG of eight bits a channel, with or without alpha, not interlaced: what the browser writes."""
    place, packed, header = 8, b"", b""
    while place < len(png):
        (size,) = struct.unpack_from(">I", png, place)
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        header = body if kind == b"IHDR" else header
        packed += body if kind == b"IDAT" else b""
        place += 12 + size
    width, height, depth, colour, *_, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, interlaced) == (8, 0)
    channels = {2: 3, 6: 4}[colour]
    raw = zlib.decompress(packed)
    stride = width * channels
    rows: list[bytes] = []
    before = bytes(stride)
    for start in range(0, height * (stride + 1), stride + 1):
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + stride], before, channels)
        rows.append(before)
    if channels == 4:
        rows = [bytes(value for index, value in enumerate(row) if index % 4 != 3) for row in rows]
    return Picture(width, height, tuple(rows))


def _unfiltered(kind: int, row: bytes, above: bytes, channels: int) -> bytes:
    """A row without its filter, https://www.w3.org/TR/png-3/#9Filters."""
    if kind == 0:
        return row
    found = bytearray(row)
    for index, value in enumerate(row):
        left = found[index - channels] if index >= channels else 0
        up = above[index]
        corner = above[index - channels] if index >= channels else 0
        guess = (left, up, (left + up) // 2, _paeth(left, up, corner))[kind - 1]
        found[index] = (value + guess) & 255
    return bytes(found)


def _paeth(left: int, up: int, corner: int) -> int:
    target = left + up - corner
    return min((left, up, corner), key=lambda one: abs(target - one))
