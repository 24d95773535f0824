"""What the tests of the report in a browser share: the browser, visits that ask for nothing, and pictures."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

FOUND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(FOUND is None, reason="no Chromium or Chrome was found")


@contextmanager
def chromium():
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=FOUND, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def visits(browser):
    """A function that opens a file; afterwards nothing may have gone wrong, nor been asked for."""
    contexts, faults = [], []

    def open_file(path, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        tab, address = context.new_page(), path.as_uri()
        tab.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: faults.append(request.url) if request.url.split("#")[0] != address else None)
        tab.goto(address)
        return tab

    yield open_file
    for context in contexts:
        context.close()
    assert faults == []


def picture(part, folder, name, **options):
    """A page or a part of it as an array of (height, width, 3), kept where EVENMARGIN_PICTURES says."""
    imread = pytest.importorskip("matplotlib.image", reason="matplotlib is not installed").imread
    folder = Path(os.environ.get("EVENMARGIN_PICTURES", folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    part.screenshot(path=path, **options)
    return imread(path)[:, :, :3]
