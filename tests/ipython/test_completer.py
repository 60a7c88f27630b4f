from __future__ import annotations

import pytest
from IPython.core.completer import provisionalcompleter

from nitro_repl._ipython.completer import complete
from nitro_repl._run import registry, verbs
from tests.cells import tiny


@pytest.fixture(scope="module")
def ended():
    """Two runs; of the second, `sharp` is not a value."""
    book = tiny(
        """
        class Sharp(Tiny):
            sharp: Device[float] = 1.0
            @nitro.program
            def sample(self, model, *, prompt, heat=1.0): return model(prompt) * heat
            def param_group(self, path, leaf): return path[-1]
        """
    )
    one, other = book.train("Sharp"), book.train()
    one.record.history.append("val", {"step": 1, "epoch": 0, "acc": 0.5})
    return one, other


@pytest.fixture
def runs(ended):
    for run in ended:
        registry.add(run)
    return ended


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
        ("help sw", ["swap"]),
        ("predict ", ["experiment", "batch"]),
        ("pause --", ["--run"]),
        ("train Nope wi", []),
        ("nonsense ", []),
        ("pause --run ", []),
        ("train Digits --seed ", []),
        ("train Digits width=3 wi", []),
        ("train --seed 3 Dig", ["Digits"]),
        ("compare --mode ", ["min", "max"]),
        ("compare --m", ["--metric", "--mode"]),
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


@pytest.mark.parametrize(
    ("rest", "offered"),
    [
        ("set sm", ["smoothing="]),
        ("set sh", []),
        ("set --run ONE sh", ["sharp="]),
        ("set smoothing=1 sm", []),
        ("set on", ["on_nonfinite="]),
        ("set --run ONE kernel.l", ["kernel.learning_rate="]),
        ("unset --run ONE sh", ["sharp"]),
        ("unset sh", []),
        ("swap --run ONE opt", ["optimizer"]),
        ("evaluate ", ["train", "val"]),
        ("evaluate --run ONE v", ["val"]),
        ("history t", ["train"]),
        ("call ", []),
        ("call --run ONE ", ["sample"]),
        ("call --run ONE sample ", ["prompt=", "heat="]),
        ("call sample prompt=x --run ONE ", ["heat="]),
        ("call sample prompt=x ", []),
        ("compare ", ["ONE", "OTHER"]),
        ("compare ONE ", ["OTHER"]),
        ("compare --metric l", ["loss", "learning_rate"]),
        ('compare --metric "v', ['"val acc"']),
        ("dash --", ["--run"]),
    ],
)
def test_what_is_offered_is_of_the_run_that_is_named(rest, offered, runs, namespace):
    names = {"ONE": runs[0].id, "OTHER": runs[1].id}
    rest = " ".join(names.get(word, word) for word in rest.split(" "))
    assert complete(rest, namespace) == [names.get(name, name) for name in offered]


WITH_RUN = [
    name for name, verb in verbs.VERBS.items() if verb.target in ("run", "handle")
]


@pytest.mark.parametrize("verb", [*WITH_RUN])
def test_every_verb_of_a_run_completes_its_id(verb, runs, shell):
    start = f"%nitro {verb} --run "
    for typed in ("", runs[0].id[:-3]):
        text = start + typed
        with provisionalcompleter():
            found = list(shell.Completer.completions(text, len(text)))
        offered = [text[: c.start] + c.text + text[c.end :] for c in found]
        assert start + runs[0].id in offered


def test_ids_of_runs_complete_in_a_comparison(runs, shell):
    one, other = (run.id for run in runs)
    text = f"%nitro compare {one} {other[:-2]}"
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    assert f"%nitro compare {one} {other}" in [text[: c.start] + c.text for c in found]


def test_a_dotted_name_completes_as_a_whole(runs, shell):
    text = f"%nitro set --run {runs[0].id} kernel.le"
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    [made] = [text[: c.start] + c.text for c in found]
    assert made.endswith(" kernel.learning_rate=")


@pytest.mark.parametrize("jedi", [True, False])
def test_a_run_and_a_handle_show_what_is_for_users(jedi, runs, shell, monkeypatch):
    monkeypatch.setattr(shell.Completer, "use_jedi", jedi)
    run = shell.user_ns["run"] = runs[0]
    handle = shell.user_ns["handle"] = run.handle
    for text, shown in (("run.", run), ("handle.", handle)):
        with provisionalcompleter():
            found = list(shell.Completer.completions(text, len(text)))
        names = {c.text.removeprefix(".") for c in found}
        assert names == set(dir(shown))
        assert all(hasattr(type(shown), n) or n in vars(shown) for n in names)
    assert {"swap", "set", "history", "stale", "every"} <= set(dir(run))
    assert {"train", "evaluate", "predict", "run"} <= set(dir(handle))
    assert not {"asker", "begin", "mailbox", "plan"} & {*dir(run), *dir(handle)}
