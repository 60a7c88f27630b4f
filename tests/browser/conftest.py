from __future__ import annotations

import importlib.util
import os

import pytest

from tests.browser import lab, pages


def absent(what):
    """Skip, or fail where a browser must be there."""
    if os.environ.get("NITRO_BROWSER") == "required":
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser():
    """A chromium; tests that need one are skipped where there is none.

    Not of the session: its event loop would stand in the way of kernel tests.
    """
    if importlib.util.find_spec("playwright") is None:
        absent("no playwright here: pip install playwright")
    if pages.chromium() is None:
        absent("no chromium here: apt-get install chromium")
    with pages.browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def jupyter(tmp_path_factory):
    """A server that offers JupyterLab and Notebook 7."""
    for name in ("jupyterlab", "notebook"):
        if importlib.util.find_spec(name) is None:
            absent(f"no {name} here: pip install {name}")
    with lab.server(tmp_path_factory.mktemp("jupyter")) as made:
        yield made
