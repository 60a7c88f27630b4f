from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from nitro_repl._ipython.completer import complete
from nitro_repl._run import verbs


@pytest.mark.parametrize(
    ("rest", "offered"),
    [
        ("tr", ["train"]),
        ("st", ["stop", "status"]),
        ("train ", ["Digits", "experiment"]),
        ("train D", ["Digits"]),
        ("train Digits wi", ["width="]),
        ("train experiment width=3 sm", ["smoothing="]),
        ("train Digits --max-e", ["--max-epochs"]),
        ("train Digits --pa", ["--pad-eval", "--paused"]),
        ("evaluate v", ["val"]),
        ("help sw", ["swap"]),
        ("predict ", ["experiment", "batch"]),
        ("pause --", ["--run"]),
        ("train Nope wi", []),
        ("nonsense ", []),
        ("pause --run ", []),
        ("set sm", []),
    ],
)
def test_what_is_offered(rest, offered, namespace):
    assert sorted(complete(rest, namespace)) == sorted(offered)


def test_an_empty_line_offers_every_verb(namespace):
    assert complete("", namespace) == list(verbs.VERBS)


def test_all_fields_of_an_experiment_are_offered(namespace):
    offered = complete("train Digits ", namespace)
    assert offered == [f"{name}=" for name in namespace["Digits"].__fields__]


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("%nitro tra", ["train"]),
        ("x = 1\n%nitro tra", ["train"]),
        ("run = %nitro tra", ["train"]),
        ("%nitro train Dig", ["Digits"]),
        ("%nitro train Digits smo", ["smoothing="]),
        ("%nitro train Digits --max-st", ["--max-steps"]),
    ],
)
def test_ipython_offers_ours_and_nothing_else(text, offered, shell, namespace):
    shell.push({"Digits": namespace["Digits"]})
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    assert [text[: c.start] + c.text for c in found] == [
        text[: len(text) - len(text.split()[-1])] + name for name in offered
    ]


def test_other_lines_are_left_alone(shell):
    with provisionalcompleter():
        found = [c.text for c in shell.Completer.completions("import o", 8)]
    assert "os" in found
