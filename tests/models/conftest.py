from __future__ import annotations

import os
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(__file__))
sys.path.insert(0, TESTS)  # for `cells`


@pytest.fixture(scope="module")
def nothing_known():
    """An empty program cache for a module that counts what it compiles."""
    import nitro_repl

    nitro_repl.programs.clear()
