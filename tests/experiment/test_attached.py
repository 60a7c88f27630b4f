"""Hooks attached to a class, when its cell is run again."""

from __future__ import annotations

CLASS = """
import nitro_repl as nitro


class Exp(nitro.Experiment):
    def loss(self, outputs):
        return outputs
"""
HOOK = """
@Exp.hook
def loss(self, outputs):
    return 2 * outputs
"""


def test_running_a_class_cell_again_says_which_attached_hooks_it_drops(capsys):
    cells = {"__name__": "__main__"}
    exec(compile(CLASS, "<cell 1>", "exec"), cells)
    exec(compile(HOOK, "<cell 2>", "exec"), cells)
    assert capsys.readouterr().out == ""

    exec(compile(CLASS, "<cell 3>", "exec"), cells)

    said = capsys.readouterr().out
    assert "loss" in said
    assert "cell 2" in said
    assert cells["Exp"].__attached__ == {}


def test_a_class_without_attached_hooks_is_replaced_without_a_word(capsys):
    cells = {"__name__": "__main__"}
    for number in (1, 2):
        exec(compile(CLASS, f"<cell {number}>", "exec"), cells)

    assert capsys.readouterr().out == ""
