"""The verbs that a user has for a run: one table for methods, magics and help.

Magics, completion and help are generated from it; each verb is the Python method of
that name.
"""

from __future__ import annotations

from ..errors import MagicError, suggest
from .verb import Parameter, Verb

_SPLIT = "name of a split, such as val"
_RUN = Parameter("run", "option", "which run, if not the current one", offers="runs")

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "train",
            "start training in the background; without a name, go on with the last",
            "module",
            "Run",
            (
                Parameter(
                    "experiment",
                    "word",
                    "an Experiment class, or a variable holding an experiment or Nitro",
                    offers="experiments",
                ),
                Parameter("fields", "fields", "fields of the experiment"),
                Parameter("settings", "settings", "settings of Nitro"),
                Parameter("paused", "flag", "wait before the first step"),
                Parameter("fresh", "flag", "start again from the initial state"),
                Parameter(
                    "horizon", "option", "optimizer steps that schedules span", int
                ),
            ),
        ),
        Verb("pause", "pause at the next step boundary", "run", "None", (_RUN,)),
        Verb("resume", "go on after a pause", "run", "None", (_RUN,)),
        Verb(
            "advance",
            "do some more steps, then pause",
            "run",
            "None",
            (Parameter("n", "word", "how many steps, 1 if not given", int), _RUN),
        ),
        Verb("stop", "end the run at the next step boundary", "run", "None", (_RUN,)),
        Verb(
            "wait",
            "wait until the run ends; an interrupt only ends the waiting",
            "run",
            "whether it has ended",
            (Parameter("timeout", "word", "seconds to wait at most", float), _RUN),
        ),
        Verb(
            "set",
            "change Device fields or hyperparameters of the live run",
            "run",
            "None",
            (
                Parameter("fields", "fields", "new values", required=True),
                Parameter("override", "flag", "set what follows a schedule, too"),
                _RUN,
            ),
        ),
        Verb(
            "unset",
            "give a value back to its schedule or default",
            "run",
            "None",
            (
                Parameter(
                    "name", "word", "which value", required=True, offers="values"
                ),
                _RUN,
            ),
        ),
        Verb(
            "swap",
            "compile what was edited, behind the running programs, then switch",
            "run",
            "Reasons, with --wait",
            (
                Parameter("program", "words", "only these programs", offers="programs"),
                Parameter("undo", "flag", "go back to what ran before"),
                Parameter("wait", "flag", "return only after the switch"),
                _RUN,
            ),
        ),
        Verb(
            "auto",
            "what an edit of a cell or a file does: say or set it",
            "module",
            "Level",
            (
                Parameter(
                    "level",
                    "word",
                    "0: nothing; 1: stale programs are named; 2: and swapped",
                    int,
                    offers="levels",
                ),
            ),
        ),
        Verb("status", "show the run at this moment", "run", "Status", (_RUN,)),
        Verb(
            "dash",
            "show the panel of the run; in a terminal, until it ends or Ctrl-C",
            "run",
            "None",
            (_RUN,),
        ),
        Verb("programs", "list the compiled programs", "module", "programs"),
        Verb("why", "say what was compiled or reused, and why", "module", "Reasons"),
        Verb("validate", "metrics on the val split", "handle", "dict", (_RUN,)),
        Verb(
            "evaluate",
            "metrics on a split",
            "handle",
            "dict",
            (
                Parameter("split", "word", _SPLIT, required=True, offers="splits"),
                _RUN,
            ),
        ),
        Verb(
            "predict",
            "outputs of the model for a batch or a loader",
            "handle",
            "outputs",
            (
                Parameter(
                    "variable",
                    "word",
                    "a variable holding the batch or loader",
                    required=True,
                    offers="variables",
                ),
                _RUN,
            ),
        ),
        Verb(
            "call",
            "run a @nitro.program method on the live state",
            "run",
            "what the method returns",
            (
                Parameter(
                    "method",
                    "word",
                    "name of the method",
                    required=True,
                    offers="methods",
                ),
                Parameter("inputs", "fields", "literals, or names of variables"),
                _RUN,
            ),
        ),
        Verb(
            "report",
            "the result: where the run stands, metrics, changes, what is in force",
            "run",
            "Report",
            (_RUN,),
        ),
        Verb(
            "history",
            "the recorded columns of a split",
            "run",
            "HistoryView",
            (Parameter("split", "word", _SPLIT, offers="splits"), _RUN),
        ),
        Verb("runs", "list the runs of this session", "module", "RunsTable"),
        Verb(
            "compare",
            "set runs side by side: values, code, curves, the best of them",
            "module",
            "Comparison",
            (
                Parameter("runs", "words", "which runs; all if none", offers="runs"),
                Parameter(
                    "metric", "option", "what says which is best", offers="metrics"
                ),
                Parameter(
                    "mode", "option", "min or max: which value is", offers="modes"
                ),
            ),
        ),
        Verb(
            "help",
            "explain a verb, or list them",
            "module",
            "Help",
            (Parameter("verb", "word", "which verb", offers="verbs"),),
        ),
    )
}


def find_verb(name: str) -> Verb:
    """The verb of that name.

    Raises:
        MagicError: There is none.
    """
    if name not in VERBS:
        meant = suggest(name, VERBS)
        fix = f"{meant}{'' if meant.endswith('?') else '.'} See %nitro help"
        raise MagicError(f"there is no verb `{name}`", fix=fix)
    return VERBS[name]
