from __future__ import annotations

import pytest

from tests.browser import pages


@pytest.fixture(scope="session")
def browser():
    """A chromium; tests that need one are skipped where there is none."""
    pytest.importorskip("playwright.sync_api")
    if pages.chromium() is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with pages.browser() as opened:
        yield opened
