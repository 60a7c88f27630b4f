from __future__ import annotations

BASE = "class Tiny(Tiny):\n    def extra(self):\n        return {}"
MIXIN = "class Mix:\n    def extra(self):\n        return {}"
WORDS = "`{}` still holds an older `{}`; run its cell again to renew it"


def test_a_subclass_of_a_class_that_is_defined_anew_is_named(console):
    console.cell(MIXIN.format(1.0))
    said = console.cell(
        "class Loud(Mix, Tiny):\n    pass\nclass Louder(Loud):\n    pass"
    )
    assert "still holds" not in said
    said = console.cell(MIXIN.format(2.0))
    for name in ("Loud", "Louder"):
        assert WORDS.format(name, "Mix") in said
    assert "still holds" not in console.cell("x = 1"), "said once"
    said = console.cell("class Loud(Mix, Tiny):\n    pass")
    assert "`Louder` still holds an older `Loud`" in said
    assert "`Loud` still" not in said


def test_a_class_that_extends_itself_and_one_of_another_name_are_no_news(console):
    said = console.cell(BASE.format(1.0))
    said += console.cell("Other = Tiny\nclass Tiny(Tiny):\n    pass")
    said += console.cell("class Mine(int):\n    pass\nint = float\ndel int")
    assert "still holds" not in said


def test_nothing_is_said_at_level_0_or_before_anything_was_trained(shell, capsys):
    from nitro_repl._run import registry

    cells = ["class A:\n    pass\nclass B(A):\n    pass", "class A:\n    n = 1"]
    known = dict(registry.runs)
    registry.runs.clear()
    try:
        for cell in cells:
            shell.run_cell(cell)
    finally:
        registry.runs.update(known)
    assert "still holds" not in capsys.readouterr().out


def test_level_0_says_nothing(console):
    console.cell("%nitro auto 0")
    console.cell(MIXIN.format(1.0) + "\nclass Loud(Mix):\n    pass")
    assert "still holds" not in console.cell(MIXIN.format(2.0))
    console.cell("%nitro auto 1")
