"""The code that the programs of one set were made from; a later one must be of it too.

A run looks programs up as it meets shapes. One that is first needed after an edit would
be of newer code than those beside it: that is refused, never mixed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from .._code.diff import explain
from .._code.fingerprint import Fingerprint
from .._experiment.view import Read
from ..errors import StaleError
from .blueprint import Blueprint
from .candidate import moves
from .key import Source, digest_of
from .spec import Program

HOOKS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "forward",
        "loss",
        "train_metrics",
        "optimizer",
        "train_step",
        "setup_optimizers",
    ),
    "eval": ("forward",),
    "value": ("loss",),
    "metrics": ("metrics",),
}
"""The hooks in each kind of step."""

_NO_MODEL = ("value", "metrics")
Content = Fingerprint | Hashable
_MODEL = Read("model", "the model")


class Pins:
    """Content of the hooks of one set, of what else its programs read, of the model."""

    def __init__(self) -> None:
        self._held: dict[str, dict[Read, Content]] = {}
        self._restless: set[Read] = set()

    def check(self, kind: str, plan: Blueprint, source: Source) -> None:
        """Refuse a step whose code is not that of the steps made before.

        Raises:
            StaleError: It has changed; the edit is named.
        """
        for read, before in self._of(kind).items():
            now = _content(read, plan, source)
            if digest_of(before) != digest_of(now):
                raise _stale(kind, read, before, now)

    def take(
        self, kind: str, plan: Blueprint, source: Source, programs: Iterable[Program]
    ) -> None:
        """Hold what the code says now that these programs are made.

        All hooks at the first step. What a trace changes by itself is not held: it
        says nothing of edits.
        """
        programs = tuple(programs)
        self._restless |= {
            read for one in programs for read in one.reads if moves(read) in one.unsound
        }
        if not self._held:
            methods = {name: (name,) for name in plan.hooks.programs()}
            for each, hooks in {**methods, **HOOKS}.items():
                if each == "metrics" and not plan.device_metrics:
                    continue  # nothing compiled will be of it
                reads = (*(Read("member", hook) for hook in hooks), _MODEL)
                self._hold(each, reads, plan, source)
        whole = ("step", "grad")  # which hook of these reads what is not known
        own = [p for p in programs if p.name not in whole]
        reads = {read for p in own for read in p.reads if read.kind != "device"}
        self._hold(kind, (*self._held.get(kind, {}), *reads), plan, source)

    def _hold(
        self, kind: str, reads: Iterable[Read], plan: Blueprint, source: Source
    ) -> None:
        held = self._held.setdefault(kind, {})
        for read in reads:
            if read in self._restless:
                held.pop(read, None)
            else:
                held[read] = _content(read, plan, source)

    def _of(self, kind: str) -> dict[Read, Content]:
        out = {*self._restless, *((_MODEL,) if kind in _NO_MODEL else ())}
        held = self._held.get(kind, {})
        return {read: content for read, content in held.items() if read not in out}


def _content(read: Read, plan: Blueprint, source: Source) -> Content:
    if read != _MODEL:
        return source.content(read)
    if "train" not in source.models:  # it stands for the model in eval mode too
        source.models["train"] = plan.train_content()
    return source.models["train"]


def _stale(kind: str, read: Read, before: Content, now: Content) -> StaleError:
    known = isinstance(before, Fingerprint) and isinstance(now, Fingerprint)
    said = explain(before, now)[:1] if known else []  # type: ignore[arg-type]
    what = {"train": "the train step", "value": "`loss`"}.get(kind, f"`{kind}`")
    return StaleError(
        f"{what} is needed for new shapes, but its code has changed since the other "
        "programs were made",
        where=said[0] if said else f"{read.name} changed",
        fix="run.swap() or a new Nitro takes the edit for all programs;\n"
        "or undo the edit",
    )
