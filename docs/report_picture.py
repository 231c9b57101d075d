"""Draws docs/report.png: the top of the report of a fit, as a browser shows it.

The data are simulated: three kinds of water, measured at two sites whose channels leak into each
other and differ in gain and offset, with eight labels at the second. Run
``.venv/bin/python docs/report_picture.py``; it needs playwright and a chromium.
"""

import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import sync_playwright

from unshift.cli import main

KINDS = ("lake", "river", "well")
CHANNELS = ["pH", "conductivity", "turbidity", "nitrate", "iron", "UV 254 nm", "oxygen"]
CHROMIUM = "/usr/bin/chromium"
PICTURE = Path(__file__).with_name("report.png")


def write_tables(folder: Path) -> None:
    """Both sites as files; in the second's, eight cells of the label are filled."""
    rng = np.random.default_rng(0)
    means = 2.2 * rng.standard_normal((len(KINDS), len(CHANNELS)))
    leaks = np.eye(len(CHANNELS)) + 0.25 * rng.standard_normal((len(CHANNELS),) * 2)
    for site, rows, known in (("A", 500, 500), ("B", 400, 8)):
        kinds = rng.integers(len(KINDS), size=rows)
        X = means[kinds] + rng.gamma(2.0, 0.5, (rows, len(CHANNELS)))
        if site == "B":
            X = X @ leaks * rng.uniform(0.6, 1.6, len(CHANNELS)) + 2.0
        frame = pd.DataFrame(X, columns=CHANNELS)
        frame.insert(0, "sample", [f"{site}-{row + 1}" for row in range(rows)])
        frame["origin"] = np.array(KINDS, dtype=object)[kinds]
        frame.loc[known:, "origin"] = None
        frame.to_csv(folder / f"site-{site}.csv", index=False)


def draw(page: Path) -> None:
    """The page down to the end of its picture, as a PNG of 64 colours."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 800})
        tab.goto(page.as_uri())
        foot = tab.evaluate("document.querySelector('#stage').getBoundingClientRect().bottom")
        part = {"x": 0, "y": 0, "width": 1000, "height": foot + 16}
        drawn = tab.screenshot(full_page=True, clip=part)
        browser.close()
    Image.open(io.BytesIO(drawn)).quantize(64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        source, target = (str(folder / file) for file in ("site-A.csv", "site-B.csv"))
        words = ["fit", source, target, "--label", "origin", "--id", "sample"]
        done = main([*words, "--out", str(folder / "fit")])
        if done == 0:
            draw(folder / "fit" / "report.html")
    sys.exit(done)
