"""Make the picture of the README anew: the panel of the first notebook as it trains.

    python -m tests.browser.picture

The notebook runs in JupyterLab up to its swap and on; nothing in the picture is drawn
by hand. Needs chromium and `.[dev,demo]`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat

from tests.browser import lab, pages
from tests.browser.shown import Shown

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
FIRST = NOTEBOOKS / "01_first_run.ipynb"
PICTURE = NOTEBOOKS / "panel.png"


def main() -> None:
    os.environ["NITRO_CACHE_DIR"] = "off"
    with (
        tempfile.TemporaryDirectory() as folder,
        lab.server(Path(folder)) as server,
        pages.browser() as browser,
    ):
        text = FIRST.read_text(encoding="utf-8").replace("wait 5", "wait 1")
        (server.root / "it.ipynb").write_text(text, encoding="utf-8")
        page = browser.new_page(viewport={"width": 1440, "height": 1300})
        take(lab.Notebook(page, server).open())
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB")


def take(book: lab.Notebook) -> None:
    """Run the notebook as far as it goes on after its swap, and take the picture."""
    cells = nbformat.read(FIRST, as_version=4).cells
    code = [cell.id for cell in cells if cell.cell_type == "code"]
    for name in ("load", "define", "train"):
        book.run(code.index(name))
    panel = Shown(book.page).wait()
    panel.until_step(300)
    book.run(code.index("set"))
    panel.until_step(panel.step + 700)
    for name in ("pause", "edit", "swap"):
        book.run(code.index(name))
    paused = panel.step
    book.start(code.index("resume"))
    panel.until_step(paused + 700)
    panel.until_phase("stepping")
    panel.root.scroll_into_view_if_needed()
    panel.root.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
