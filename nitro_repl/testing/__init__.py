"""For tests of your own: count what JAX compiles, and edit code as a session would.

Nothing here is needed to train; all of it undoes itself at the end of a `with`.

Example:
    >>> from nitro_repl.testing import count_compiles, edit
    >>> def test_an_edit_of_the_loss_compiles_nothing_else(run):
    ...     with edit("losses", "gamma=2.0", "gamma=3.0"), count_compiles() as count:
    ...         run.swap()
    ...     assert count.compiled == {"loss": 1}
"""

from __future__ import annotations

from ._compiles import Compiles as Compiles, count_compiles as count_compiles
from ._edit import Edit as Edit, edit as edit
