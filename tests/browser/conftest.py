from __future__ import annotations

import pytest

from tests.browser import pages


@pytest.fixture(scope="module")
def browser():
    """A chromium; tests that need one are skipped where there is none.

    Not of the session: its event loop would stand in the way of kernel tests.
    """
    pytest.importorskip("playwright.sync_api")
    if pages.chromium() is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with pages.browser() as opened:
        yield opened
