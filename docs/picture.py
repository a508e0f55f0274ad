"""Makes docs/report.png, the picture in the README, from results/report.html: `make picture` runs it.

Needs Chromium. The page's top is taken as a laptop shows it. Every clone carries the file, so one above 150 KB is
refused.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path("results/report.html")
PICTURE = Path("docs/report.png")
SIZE = "1250,930"
LARGEST_BYTES = 150_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def take(browser: str, page: Path, picture: Path) -> None:
    """Let a browser without a window draw the page's top into a file."""
    # As root, as in a container, Chromium starts without its sandbox only; the page is our own.
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={SIZE}"]
    command = [browser, *flags, f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def main() -> str | None:
    """Make the picture; return what is missing, with what to do, or None."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return f"expected a browser, found none of {', '.join(BROWSERS)} on the PATH; install chromium"
    if not PAGE.is_file():
        return f"{PAGE}: expected a report, found none; run `make report`"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, PICTURE.name)
        take(browser, PAGE, made)
        size = made.stat().st_size
        if size > LARGEST_BYTES:
            return f"{PICTURE}: expected at most {LARGEST_BYTES} bytes, found {size}; take a report of fewer kernels"
        shutil.copyfile(made, PICTURE)
    print(f"{PICTURE}: {size} bytes")
    return None


if __name__ == "__main__":
    sys.exit(main())
