from __future__ import annotations

import os
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(__file__))
sys.path.insert(0, TESTS)  # for `cells`


@pytest.fixture(autouse=True)
def nothing_known(fresh_programs):
    """An empty program cache: each of these tests counts what it compiles."""
