from __future__ import annotations

import os
import sys

TESTS = os.path.dirname(os.path.dirname(__file__))
sys.path.insert(0, TESTS)  # for `cells`
