from __future__ import annotations

from typing import Any

import pytest

from nitro_repl._ipython.literals import literal
from nitro_repl._ipython.parser import parse, tokenize, usage_line
from nitro_repl._run import registry, verbs
from nitro_repl._run.help import help_text
from nitro_repl.errors import MagicError, NitroError


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("", []),
        ("   ", []),
        ("pause", ["pause"]),
        ("pause  # a comment", ["pause"]),
        ("# only a comment", []),
        ("status;", ["status"]),
        ("status ;", ["status"]),
        ("status;  # and why", ["status"]),
        ("set note='a # b; c'", ["set", "note='a # b; c'"]),
        ("set tag=a#b", ["set", "tag=a#b"]),
        ("set dims=(1, 2) x={'a': [3, 4]}", ["set", "dims=(1, 2)", "x={'a': [3, 4]}"]),
        (r"set note='it\'s'", ["set", r"note='it\'s'"]),
        ("set note=')'", ["set", "note=')'"]),
        ("set\ta=1\tb=2", ["set", "a=1", "b=2"]),
    ],
)
def test_a_line_splits_at_blanks_outside_quotes_and_brackets(line, tokens):
    assert tokenize(line) == tokens


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("3", int, 3),
        ("-0.5", float, -0.5),
        ("1e-3", float, 1e-3),
        ("3", float, 3),
        ("True", bool, True),
        ("None", int | None, None),
        ("(64, 32)", Any, (64, 32)),
        ("'quoted'", Any, "quoted"),
        ("bare", str, "bare"),
        ("12", str, "12"),
        ("bare-word.txt", str | None, "bare-word.txt"),
        ("None", str | None, None),
        ("100", int | str, 100),
        ("'1 epoch'", int | str, "1 epoch"),
    ],
)
def test_a_value_is_a_literal_or_a_bare_word_where_a_string_may_stand(
    text, wanted, value
):
    read = literal(text, wanted, "name")
    assert read == value
    assert type(read) is type(value)


def test_a_train_line_gives_typed_fields_and_settings(namespace):
    verb, arguments = parse(
        "train Digits width=256 smoothing=0.1 note=hello mode=exact color=BLUE "
        "--max-epochs 40 --seed=3 --paused  # go",
        namespace,
    )
    colors = namespace["Digits"].__fields__["color"].type
    assert verb is verbs.VERBS["train"]
    assert arguments.words == ("Digits",)
    assert arguments.options == {"max_epochs": 40, "seed": 3, "paused": True}
    assert arguments.fields == {
        "width": 256,
        "smoothing": 0.1,
        "note": "hello",
        "mode": "exact",
        "color": colors.BLUE,
    }


def test_an_enum_is_given_by_member_or_by_value(namespace):
    colors = namespace["Digits"].__fields__["color"].type
    for text in ("RED", "'RED'", "red", "Color.RED"):
        assert literal(text, colors, "color") is colors.RED
    assert literal("2", colors, "color") is colors.BLUE


@pytest.mark.parametrize(
    "line", ["width = 8", "width= 8", "width =8", "width = 8 --max-epochs 2"]
)
def test_blanks_may_stand_around_the_sign(line, namespace):
    _, found = parse(f"train Digits {line} ", namespace)
    assert found.fields == {"width": 8}


@pytest.mark.parametrize("line", ["width= --max-epochs 2", "width= smoothing=0.1"])
def test_a_name_without_a_value_takes_no_option_and_no_other_name(line, namespace):
    with pytest.raises(MagicError, match="`width=` needs a value"):
        parse(f"train Digits {line}", namespace)


@pytest.mark.parametrize(
    ("line", "words", "options"),
    [
        ("pause", (), {}),
        ("advance 3; # three more", (3,), {}),
        ("wait 2.5", (2.5,), {}),
        ("swap loss forward --undo", ("loss", "forward"), {"undo": True}),
        ("swap --undo loss", ("loss",), {"undo": True}),
        ("swap --undo=False", (), {"undo": False}),
        ("evaluate test --run digits-2", ("test",), {"run": "digits-2"}),
        ("help swap", ("swap",), {}),
        ("", (), {}),
    ],
)
def test_words_and_options_of_a_verb(line, words, options):
    _, arguments = parse(line, {})
    assert arguments.words == words
    assert arguments.options == options


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian Digits", "there is no verb `trian`: did you mean `train`?"),
        ("train digits", "there is no experiment `digits`: did you mean `Digits`?"),
        ("train batch", "`batch` is no experiment, its type is `dict`"),
        (
            "train Digits widht=3",
            "`Digits` has no field `widht`: did you mean `width`?",
        ),
        ("train Digits width=big", "`width`: `big` is not a Python literal: {big} is"),
        ("train Digits anything=big", "'big' is a string, {big} is the value of"),
        ("train Digits width=2*64", "{...} around an expression has IPython compute"),
        ("train Digits width=true", "did you mean `True`?"),
        ("train Digits width=none", "did you mean `None`?"),
        ("train Digits width=", "`width=` needs a value"),
        ("train Digits width=1 width=2", "`width` is given twice"),
        ("train Digits color=green", "`color`: `green` is no Color: one of: BLUE, RED"),
        ("train Digits mode=slow", "`mode`: `slow` is none of 'fast', 'exact'"),
        ("train Digits --max-epoch 3", "did you mean `--max-epochs`?"),
        ("train Digits --max-epochs", "`--max-epochs` needs a value"),
        ("train Digits --max-epochs --paused", "`--max-epochs` needs a value"),
        (
            "train Digits --fuse True",
            "`--fuse` is a flag and takes no value: write `--fuse` instead of",
        ),
        ("train Digits --pad-eval false", "write `--pad-eval=False` instead of"),
        ("swap --undo True", "`--undo` is a flag and takes no value"),
        ("foo", "why. See %nitro help"),
        ("trian", "did you mean `train`? See %nitro help"),
        ("train Digits -p", "`-p` is no option: options start with `--`"),
        ("train Digits Digits", "`Digits` is one word too many: usage: train"),
        ("train Digits dims=(1, 2", "`dims=(1, 2` misses its closing `)`"),
        ("train Digits note='open", "misses its closing `'`"),
        ("pause x=3", "`pause` takes no `x=...`: usage: pause [--run RUN]"),
        ("pause now", "`now` is one word too many: usage: pause [--run RUN]"),
        ("pause --later", "`pause` has no option `--later`: one of: --run"),
        ("programs --run a", "`programs` has no option `--run`: it takes none"),
        ("advance soon", "`n`: `soon` is not a Python literal"),
        ("evaluate", "`evaluate` needs a split: usage: evaluate SPLIT [--run RUN]"),
        ("set", "`set` needs a name and a value: set smoothing=0.1"),
        ("set smoothing", "`set` needs a name and a value: set smoothing=0.1"),
    ],
)
def test_a_line_that_cannot_be_read_is_one_line_of_error(line, message, namespace):
    with pytest.raises(MagicError) as raised:
        parse(line, namespace)
    shown = usage_line(raised.value)
    assert message in shown
    assert "\n" not in shown


def test_the_help_of_train_tells_flags_from_settings_with_a_value():
    text = help_text("train")
    [valued] = [line for line in text.splitlines() if "VALUE:" in line]
    [flags] = [line for line in text.splitlines() if line.startswith("Flags")]
    assert "--seed" in valued
    assert "--fuse" not in valued
    assert "--pad-eval, --fuse" in flags


def test_nothing_on_the_line_is_evaluated(namespace):
    for value in ("__import__('os')", "print(1)", "[x for x in 'ab']", "1 if 1 else 2"):
        with pytest.raises(MagicError):
            parse(f"train Digits anything={value}".replace(" ", ""), namespace)


def test_an_attribute_is_looked_up_in_modules_only(namespace):
    class Trap:
        @property
        def digits(self):
            raise AssertionError("a property of the user's ran")

    with pytest.raises(MagicError, match="no experiment"):
        parse("train trap.digits", {**namespace, "trap": Trap()})


def test_setting_values_without_a_run_says_so(monkeypatch):
    monkeypatch.setattr(registry, "_current", [])
    with pytest.raises(NitroError, match="run"):
        parse("set smoothing=0.1", {})
