"""A real browser for tests: Debian's chromium, or the one that FEINSUM_FUSE_BROWSER names, driven by playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program() -> str | None:
    """The browser's path; ``None`` where there is none."""
    given = os.environ.get("FEINSUM_FUSE_BROWSER")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """The browser, without a window; the tests that ask for one are skipped where it, or playwright, is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = program()
    if path is None:
        pytest.skip("there is no browser: install chromium, or name one by FEINSUM_FUSE_BROWSER")
    with api.sync_playwright() as playwright:
        # The superuser's chromium starts without its sandbox only; the pages are our own.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        try:
            yield started
        finally:
            started.close()


def watched(page: Page) -> list[str]:
    """What a page complains of from now on: errors of its scripts and in its console, and whatever it asks of another place."""
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    local = ("file:", "data:", "blob:", "http://127.0.0.1:")
    page.on("request", lambda request: None if request.url.startswith(local) else complaints.append(f"asks for {request.url}"))
    return complaints
