"""Pages in a real browser without a window, as a reader's own would lay them out."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.support.required import program

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 90


def browser() -> str:
    """The browser that is installed; see `program` for what happens if there is none."""
    return program("browser", *NAMES)


def open_page(page: Path, *, width: int, height: int) -> str:
    """The page's document as HTML, after its scripts have run in a window of that size."""
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
            "--dump-dom",
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


def luminance(*colour: int) -> float:
    """The relative luminance of a colour, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = [item / 255 for item in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """The contrast ratio of two colours, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""
    low, high = sorted((luminance(*one), luminance(*other)))
    return (high + 0.05) / (low + 0.05)
