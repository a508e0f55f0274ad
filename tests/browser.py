"""The Chromium that pages are tried in, driven by Playwright. `python tests/browser.py` installs Debian's.

Playwright brings a browser of its own only by a download that a closed network refuses; a distribution's is enough,
and over Selenium it can emulate print, colour schemes and fingers, turn scripts off and see every request.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

VARIABLE = "ASSAY_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",  # as root, as in a container, Chromium starts in no other way; the pages are our own
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def find() -> str | None:
    """Return the browser that is named by the environment, or the first on the path; None where there is none.

    AssertionError where the environment names one that is not there: whoever asks for the tests shall not miss them.
    """
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        assert found is not None, f"{VARIABLE}: expected a browser, found no program {named}"
        return found
    return next((path for path in map(shutil.which, NAMES) if path is not None), None)


def obstacle() -> str | None:
    """Return why no page can be tried here, or None."""
    if find() is None:
        return f"none of {', '.join(NAMES)} on the path, and {VARIABLE} names no browser; `make chromium` installs one"
    return None


@contextmanager
def started() -> Iterator[Browser]:
    """Run the browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def main() -> None:
    """Install Debian's Chromium where there is no browser, or say why that cannot be."""
    if find() is not None:
        return
    if shutil.which("apt-get") is None:
        sys.exit(f"{obstacle()}, where it finds apt-get")
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", "-qq", *command], env=quietly, stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()
