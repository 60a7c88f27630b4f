"""What `loss` refuses is said before XLA works on the model."""

from __future__ import annotations

import pytest
from cells import check_error, tiny

from nitro_repl import HookError
from nitro_repl.testing import count_compiles

pytestmark = pytest.mark.usefixtures("nothing_known")

VECTOR = """
class Tiny(Tiny):
    def loss(self, logits, *, y):
        return logits
"""


@pytest.mark.parametrize("settings", [{}, {"fuse": True}, {"accum": 5}], ids=str)
def test_a_loss_that_is_no_scalar_is_refused_before_any_compile(
    fresh_programs, settings
):
    handle = tiny(VECTOR).handle(max_steps=1, **settings)
    with count_compiles() as count, pytest.raises(HookError) as error:
        handle.train(background=False)
    check_error(error.value, "not a scalar")
    assert count.compiled == {}


def test_a_loss_that_is_one_is_compiled(fresh_programs):
    with count_compiles() as count:
        tiny().train(max_steps=1)
    assert set(count.compiled) == {"forward", "loss", "backward", "optimizer"}
