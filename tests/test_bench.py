from __future__ import annotations

import pathlib
import re
import subprocess
import sys

BENCH = pathlib.Path(__file__).parent / "bench"


def test_a_session_lives_through_random_edits():
    done = subprocess.run(
        [sys.executable, BENCH / "edits.py", "--quick"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^ +(\d+) +(\d+) +[\d.]+  (.*)$", done.stdout, re.MULTILINE)
    assert [int(edits) for edits, _, _ in rows] == [10, 20]
    assert all("compiled" in outcomes or "hit" in outcomes for *_, outcomes in rows)
    assert "the same numbers as a fresh session" in done.stdout
    assert re.search(r"^mlp +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE)
    assert re.search(r"^transformer +[\d.]+ +[\d.]+$", done.stdout, re.MULTILINE)
