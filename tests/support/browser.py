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

import numpy as np
from numpy.typing import NDArray

from tests.support.required import program

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 90


def browser() -> str:
    """The browser that is installed; see `program` for what happens if there is none."""
    return program("browser", *NAMES)


def draw_page(page: Path, image: Path, *flags: str, width: int, height: int) -> tuple[str, Picture]:
    """The page's document as HTML, after its scripts have run, and how it looks in a window of that size."""
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
            f"--window-size={width},{height}",
            *flags,
            "--dump-dom",
            f"--screenshot={image}",
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
    return output, picture(image.read_bytes())


@dataclass(frozen=True, slots=True)
class Picture:
    """The pixels of an image by row and column, each as red, green and blue of 0 to 255."""

    pixels: NDArray[np.uint8]

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    def part(self, left: int, top: int, width: int, height: int) -> Picture:
        return Picture(self.pixels[top : top + height, left : left + width])

    def luminance(self, x: int, y: int) -> float:
        """The relative luminance of a pixel as WCAG has it, 0 for black and 1 for white."""
        return luminance(*map(int, self.pixels[y, x]))

    def colours(self) -> set[int]:
        return {int(colour) for colour in np.unique(self._colours())}

    def rows_with(self, colour: int) -> int:
        return int((self._colours() == colour).any(axis=1).sum())

    def _colours(self) -> NDArray[np.uint32]:
        return self.pixels.astype(np.uint32) @ np.array((1 << 16, 1 << 8, 1), np.uint32)


def luminance(*colour: int) -> float:
    """The relative luminance of a colour, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = [item / 255 for item in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
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
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * channels)
    pixels = _unfilter_image(lines[:, 0], lines[:, 1:].reshape(height, width, channels))
    return Picture(pixels[:, :, :3])


def _unfilter_image(kinds: NDArray[np.uint8], filtered: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """An image without the filters of its rows, https://www.w3.org/TR/png-3/#9Filters.

    A pixel needs those to its left, above it, and between: so all of one diagonal are found at once.
    """
    height, width, channels = filtered.shape
    found = np.zeros((height + 1, width + 1, channels), np.int16)  # with what lies before the first ones
    for diagonal in range(width + height - 1):
        y = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        x = diagonal - y
        left, up, corner = found[y + 1, x], found[y, x + 1], found[y, x]
        guesses = (np.zeros_like(left), left, up, (left + up) // 2, _paeth(left, up, corner))
        found[y + 1, x + 1] = filtered[y, x] + np.choose(kinds[y, None], guesses) & 255
    return found[1:, 1:].astype(np.uint8)


def _paeth(left: NDArray[np.int16], up: NDArray[np.int16], corner: NDArray[np.int16]) -> NDArray[np.int16]:
    from_left, from_up, from_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    nearest = np.where(from_up <= from_corner, up, corner)
    return np.where((from_left <= from_up) & (from_left <= from_corner), left, nearest)
