"""The programs of one run, for each batch shape and JAX setting it has met.

Looked up once for each; after that a step only compares shapes and settings.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import jax

from .._code.arrays import light_look
from ..errors import StaleError
from . import disk, metrics, training
from .assemble import Find, train_step
from .batch_fields import BatchFields
from .blueprint import Batch, Blueprint
from .by_shape import ByShape, Key
from .key import Source, aval, struct, thread_settings
from .made import Made
from .method import Given, method, method_clock
from .pins import Pins
from .preparation import prepare
from .spec import Asker, Program, Spec
from .standing import Standing, standing
from .step import EvalStep, TrainStep
from .trace import rehearse

Avals = Mapping[str, Any]
FirstBatches = Mapping[str, tuple[tuple[str, ...], Avals]]
AnyStep = TypeVar("AnyStep", TrainStep, EvalStep)


class Finder(Protocol):
    """Gives the program for a spec, as the cache does."""

    def find(self, spec: Spec, source: Source, asker: Asker, /) -> Program: ...

    def known(self, spec: Spec, source: Source, /) -> Program | None: ...


_EVAL_CLOCK = {"key": 0, "split": 0, "index": 0}


class ProgramSet:
    """Train and evaluation steps of one blueprint.

    Args:
        blueprint: What the programs are made from.
        cache: Where they are found or made.
        asker: Makes the record of who asks, at the time of asking.
        fuse: Whether the whole train step is one program.
        joint: Whether one loss is taken over all micro-batches of a step.
        look: What the code says, where somebody has looked just now.
        options: Of the compiler, by name.
    """

    def __init__(  # noqa: PLR0913  # the settings are keywords
        self,
        blueprint: Blueprint,
        cache: Finder,
        asker: Callable[[], Asker],
        *,
        fuse: bool = False,
        joint: bool = False,
        look: Source | None = None,
        options: tuple[tuple[str, Any], ...] = (),
    ):
        self.blueprint = blueprint
        self.batch_fields = BatchFields(blueprint)
        self.options = options
        self.fuse, self.joint = fuse, joint
        self._cache = cache
        self._asker = asker
        self.made = Made(
            train=ByShape("train", self._make_train),
            eval=ByShape("eval", self._make_eval),
            value=ByShape("value", self._make_value),
            metrics=ByShape("metrics", self._make_metrics),
        )
        self._pins = Pins()
        self.look = look or self._source(blueprint)
        self._prepares = False

    def anew(self) -> ProgramSet:
        """A set of the same blueprint that has made nothing yet."""
        return ProgramSet(
            self.blueprint, self._cache, self._asker,
            fuse=self.fuse, joint=self.joint, options=self.options,
        )  # fmt: skip

    def train(self, *batches: Avals) -> TrainStep:
        """The train step for micro-batches with these shapes."""
        key = (thread_settings(), tuple(map(batch_signature, batches)))
        found = self.made.train.get(key)
        return found or self._made(self.made.train, key, *map(_structs, batches))

    def evaluation(self, batch: Avals) -> EvalStep:
        """The eval program for a batch with these shapes."""
        key = (thread_settings(), batch_signature(batch))
        found = self.made.eval.get(key)
        return found or self._made(self.made.eval, key, _structs(batch))

    def value(self, outputs: Any, batch: Avals) -> EvalStep:
        """The value-only loss for outputs and a batch with these shapes."""
        return self._of_outputs(self.made.value, outputs, batch)

    def metrics(self, outputs: Any, batch: Avals) -> EvalStep:
        """The compiled `metrics` for outputs and a batch with these shapes."""
        return self._of_outputs(self.made.metrics, outputs, batch)

    def _of_outputs(
        self, steps: ByShape[EvalStep], outputs: Any, batch: Avals
    ) -> EvalStep:
        leaves, tree = jax.tree.flatten(outputs)
        avals = (tree, tuple(map(aval, leaves)), batch_signature(batch))
        key = (thread_settings(), avals)
        found = steps.get(key)
        if found is None:
            given = jax.tree.unflatten(tree, list(map(struct, leaves)))
            found = self._made(steps, key, given, _structs(batch))
        return found

    def call(self, given: Given) -> EvalStep:
        """The program of a `@nitro.program` method for such arguments."""
        made = ByShape(given.name, self._make_method)
        steps = self.made.methods.setdefault(given.name, made)
        key = (thread_settings(), given.signature)
        return steps.get(key) or self._made(steps, key, given)

    def prepare(self, like: ProgramSet, first: FirstBatches) -> None:
        """Make what another set has made, so that nothing compiles after a switch.

        All of it by the look that this set was given, which its plan was made with.

        Args:
            like: The other set.
            first: The fields of each split, and avals of those that this set takes.
        """
        self.renewed()
        self._prepares = True
        try:
            prepare(self, like, first)
        finally:
            self._prepares = False

    @property
    def programs(self) -> tuple[Program, ...]:
        """Every program in use, in the order they run."""
        return self.made.programs

    @property
    def variant(self) -> dict[str, dict[str, Any]]:
        """Each program's hash and the constants it takes as inputs, for the record."""
        return {
            f"{p.name} {p.form}": {"hash": p.hash[:16], "inputs": list(p.lifted)}
            for p in self.programs
        }

    def is_current(self) -> bool:
        """Whether its hooks still call what its programs were made from; a light look.

        What a trace changes by itself says nothing of edits.
        """
        with light_look():
            standings = self.standings(self.blueprint)
        return all(one.current or one.program.unsound for one in standings)

    def standings(self, blueprint: Blueprint) -> list[Standing]:
        """Every program beside what a newer blueprint would make of it."""
        source = self._source(blueprint)
        found = []
        for program in self.programs:
            held = program.model is not None
            model = blueprint.content_in(program.form) if held else None
            found.append(standing(program, source, model))
        return found

    def renewed(self) -> Blueprint:
        """The blueprint, its model of the newest classes if they only ran again.

        A hook that asks `isinstance(model, Net)` means the class of the last run.
        """
        plan = self.blueprint
        structure = plan.structure.renewed(plan.hooks)
        if structure is not plan.structure:
            self.blueprint = replace(plan, structure=structure)
        return self.blueprint

    def _made(self, steps: ByShape[AnyStep], key: Key, *shapes: Any) -> AnyStep:
        """Make and keep a step of the same code as those before it.

        Raises:
            StaleError: The code computes something else by now.
        """
        if not self._prepares:
            disk.refresh()  # once, so that programs of one step are of one version
            self.look = self._source(self.renewed())
        plan, kind = self.blueprint, steps.kind
        try:
            self._pins.check(kind, plan, self.look)
        except StaleError:
            if not self._computes_the_same(steps):
                raise
        made = steps.make(*shapes)
        self._pins.take(kind, plan, self._newest_look(), made.programs)
        return steps.keep(key, made, shapes)

    def _computes_the_same(self, steps: ByShape[Any]) -> bool:
        """Whether code that moved gives the programs that are there, made once more."""
        names = {
            "eval": ("forward", "eval", "step", "grad"),
            "value": ("loss", "step", "grad"),
        }
        known: ByShape[Any] = steps
        if self.made.train.items() and steps.kind in (*names, "train"):
            known = self.made.train
        if (newest := known.newest()) is None:
            return False
        before, shapes = newest
        after, kind = known.make(*shapes), steps.kind
        pairs = zip(before.programs, after.programs, strict=True)
        return all(
            old.computes(new)
            for old, new in pairs
            if kind not in names or old.name in names[kind]
        )

    def _make_train(self, *batches: Batch) -> TrainStep:
        plan, find = self.blueprint, Find(self._find, self._out)
        return train_step(plan, batches, find, fuse=self.fuse, joint=self.joint)

    def _make_eval(self, batch: Batch) -> EvalStep:
        plan = self.blueprint
        program = self._find(training.evaluation(plan, batch))
        groups = {
            "batch": batch,
            "clock": _EVAL_CLOCK,
            "fields": plan.fields,
            "params": plan.structure.param_avals,
            "state": plan.structure.state_avals,
        }
        return EvalStep(program, groups)

    def _make_value(self, outputs: Any, batch: Batch) -> EvalStep:
        spec = training.loss(self.blueprint, outputs, batch, training=False)
        return self._judging(spec, outputs, batch)

    def _make_metrics(self, outputs: Any, batch: Batch) -> EvalStep:
        return self._judging(
            metrics.metrics(self.blueprint, outputs, batch), outputs, batch
        )

    def _judging(self, spec: Spec, outputs: Any, batch: Batch) -> EvalStep:
        """The step of a program that takes outputs and fields."""
        plan, program = self.blueprint, self._find(spec)
        groups = {
            "batch": batch,
            "clock": _EVAL_CLOCK,
            "fields": plan.fields,
            "outputs": tuple(jax.tree.leaves(outputs)),
        }
        return EvalStep(program, groups)

    def _make_method(self, given: Given) -> EvalStep:
        plan = self.blueprint
        program = self._find(method(plan, given))
        groups = {
            "clock": method_clock(),
            "fields": plan.fields,
            "inputs": given.avals,
            "params": plan.structure.param_avals,
            "state": plan.structure.state_avals,
        }
        return EvalStep(program, groups)

    def _find(self, spec: Spec) -> Program:
        return self._cache.find(self._whole(spec), self._newest_look(), self._asker())

    def _out(self, spec: Spec) -> Any:
        """What a program gives, of one that is not known by a rehearsal."""
        known = self._cache.known(self._whole(spec), self._newest_look())
        if known is not None:
            return known.out
        self.look.spent = True
        return rehearse(spec.name, spec.function, spec.arguments)

    def _whole(self, spec: Spec) -> Spec:
        made = self.blueprint.made.contents
        return replace(spec, options=self.options, made=made)

    def _newest_look(self) -> Source:
        """What the code says; the same look until user code has run."""
        if self.look.spent:
            self.look = self._source(self.blueprint)
        return self.look

    @staticmethod
    def _source(blueprint: Blueprint) -> Source:
        return Source(
            blueprint.experiment, blueprint.hooks, blueprint.fields, blueprint.recipe
        )


def batch_signature(batch: Avals) -> Hashable:
    """Names, shapes and dtypes of a batch with sorted names."""
    return tuple([(name, array.shape, array.dtype) for name, array in batch.items()])


def _structs(batch: Avals) -> Batch:
    return {
        name: jax.ShapeDtypeStruct(a.shape, a.dtype)
        for name, a in sorted(batch.items())
    }
