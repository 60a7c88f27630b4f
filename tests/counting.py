"""`nitro_repl.testing` under the names that tests/programs use."""

from __future__ import annotations

from nitro_repl.testing import Compiles, count_compiles as count_compiles

Compiles.nothing_of_ours = Compiles.nothing  # type: ignore[attr-defined]
