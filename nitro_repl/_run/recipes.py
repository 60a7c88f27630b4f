"""How parameters are updated, asked of the host hooks once and checked.

Asked again only when what those hooks read has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import jax
import numpy as np
from flax import nnx

from .._experiment.base import Experiment
from .._experiment.hooks import Hooks
from .._experiment.view import Reads, host_view
from .._programs.explain import hooks_explained
from .._programs.key import Snapshot, Source
from .._programs.model import Structure, nested_of
from .._programs.recipe import Recipe
from ..errors import HookError, SettingError, suggest
from .setup import Built

Path = tuple[str, ...]

_ANCHORS = ("zero", "initial")


@dataclass(frozen=True)
class Settled:
    """What the host hooks say of the parameters of a model.

    Attributes:
        recipe: The decisions.
        anchors: Arrays that weight decay pulls toward, by parameter.
        made: What the hooks read.
        names: The parameters that were asked about; none in manual mode, where nobody
            asks.
    """

    recipe: Recipe
    anchors: Mapping[str, Any]
    made: Snapshot
    names: tuple[str, ...]


def settle(
    experiment: Experiment,
    hooks: Hooks,
    settings: Mapping[str, Any],
    built: Built,
    like: Settled | None = None,
) -> Settled:
    """Ask the hooks `param_group`, `frozen`, `no_decay` and `decay_anchor`.

    Args:
        experiment: Its fields, Device fields aside, may be read.
        hooks: Give the hooks.
        settings: Keywords `clip_norm` and `ema` win over methods and fields.
        built: The model; its parameters are the "initial" anchor.
        like: An earlier answer, taken if the hooks still say the same.

    Raises:
        HookError: A hook returned something else than it should.
        SettingError: `clip_norm` or `ema` is out of range.
    """
    source, structure = Source(experiment, hooks, {}), built.structure
    if (
        like is not None
        and not hooks.manual
        and like.names == structure.names
        and like.made.is_current(source)
    ):
        return like
    if hooks.manual:  # nobody asks: `train_step` decides
        plain = Recipe.plain(len(structure.names))
        return Settled(plain, {}, Snapshot.of((), source), ())
    reads = Reads()
    ask = _Asker(experiment, hooks, settings, reads)
    paths = [path for path, _ in _flat(structure.nested(structure.param_avals))]
    groups, frozen, decayed = [], [], []
    for path, leaf in zip(paths, structure.param_avals, strict=True):
        frozen.append(ask("frozen", bool, path, leaf))
        groups.append(ask("param_group", str, path, leaf))
        decayed.append(not ask("no_decay", bool, path, leaf))
    if all(frozen):
        raise HookError(
            "every parameter is frozen, so there is nothing to train",
            where=f"{type(experiment).__name__}.frozen",
            fix="return False for the parameters to train",
        )
    live = [d and not f for d, f in zip(decayed, frozen, strict=True)]
    with hooks_explained("decay_anchor"):
        said = ask.view("decay_anchor").decay_anchor()
    anchors = _anchors(said, built, groups, live)
    recipe = Recipe(
        tuple(groups),
        tuple(frozen),
        tuple(decayed),
        tuple(name in anchors for name in structure.names),
        _clip_norm(ask.setting("clip_norm")),
        _ema(ask.setting("ema")),
    )
    return Settled(recipe, anchors, Snapshot.of(reads, source), structure.names)


@dataclass(frozen=True)
class _Asker:
    """Calls host hooks, and notes what they read."""

    experiment: Experiment
    hooks: Hooks
    settings: Mapping[str, Any]
    reads: Reads

    def view(self, hook: str) -> Any:
        return host_view(self.experiment, self.hooks, self.reads, hook)

    def __call__(self, hook: str, kind: type, path: tuple[str, ...], leaf: Any) -> Any:
        """What a hook says of one parameter."""
        with hooks_explained(hook):
            said = getattr(self.view(hook), hook)(path, leaf)
        if isinstance(said, np.bool_):
            said = bool(said)
        if not isinstance(said, kind) or said == "":
            wanted = "the name of a group" if kind is str else "True or False"
            raise HookError(
                f"`{hook}` returned {said!r} for `{'.'.join(path)}`, not {wanted}",
                where=f"{type(self.experiment).__name__}.{hook}",
                fix=f"return {wanted} for every parameter",
            )
        return said

    def setting(self, name: str) -> Any:
        """A setting that a keyword, a method or a field gives, else None."""
        if name in self.settings:
            return self.settings[name]
        if name not in self.hooks and name not in type(self.experiment).__fields__:
            self.reads.add("absent", name)
            return None
        with hooks_explained(name):
            said = getattr(self.view(name), name)
            return said() if callable(said) else said


def _anchors(
    said: Any, built: Built, groups: list[str], decayed: list[bool]
) -> dict[str, Any]:
    """The array of each parameter that does not decay toward zero."""
    structure = built.structure
    if isinstance(said, Mapping) and not _is_tree(said, structure):
        unknown = [str(name) for name in said if name not in groups]
        if unknown:
            raise HookError(
                f"`decay_anchor` names `{unknown[0]}`, which is no group of parameters "
                "and no parameter",
                where="decay_anchor",
                fix=suggest(unknown[0], dict.fromkeys(groups)),
            )
        by_group = dict(said)
    else:
        by_group = dict.fromkeys(groups, said)
    trees = {name: _named(tree, structure) for name, tree in by_group.items()}
    found: dict[str, Any] = {}
    rows = zip(structure.names, structure.param_avals, built.params, strict=True)
    for index, (name, aval, first) in enumerate(rows):
        tree = trees.get(groups[index], "zero")
        if tree == "zero" or not decayed[index]:
            continue
        found[name] = first if tree == "initial" else _anchor(tree, name, aval)
    return found


def _named(said: Any, structure: Structure) -> Any:
    """The word, or the arrays of a tree by parameter name."""
    if isinstance(said, str) and said in _ANCHORS:
        return said
    if isinstance(said, nnx.Module):
        said = nested_of(nnx.state(said, nnx.Param))
    elif isinstance(said, nnx.State):
        said = nested_of(said)
    if not isinstance(said, Mapping):
        raise HookError(
            f"`decay_anchor` returned {said!r:.60}",
            where="decay_anchor",
            fix='return "zero", "initial", a nested dict of arrays like run.params,\n'
            "or a dict of these by group",
        )
    named = {".".join(path): leaf for path, leaf in _flat(said)}
    for name in named:
        if name not in structure.names:
            raise HookError(
                f"`decay_anchor` has `{name}`, and the model no such parameter",
                where="decay_anchor",
                fix=suggest(name, structure.names),
            )
    return named


def _anchor(tree: Mapping[str, Any], name: str, aval: Any) -> Any:
    if name not in tree:
        raise HookError(
            f"`decay_anchor` has nothing for `{name}`, which weight decay pulls",
            where="decay_anchor",
            fix="give it an array, or leave it out by `no_decay`",
        )
    array = np.asarray(tree[name])
    if array.shape != aval.shape:
        raise HookError(
            f"the anchor of `{name}` has shape {array.shape}, the parameter "
            f"{tuple(aval.shape)}",
            where="decay_anchor",
            fix="give an array of the parameter's shape",
        )
    return array.astype(aval.dtype)


def _is_tree(said: Mapping[Any, Any], structure: Structure) -> bool:
    """Whether a dict holds arrays by parameter path, rather than anchors by group."""
    return all(".".join(path) in structure.names for path, _ in _flat(said))


def _flat(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Leaves of nested dicts in the order of a tree, with their paths."""
    if not isinstance(node, Mapping):
        yield path, node
        return
    for key in sorted(node) if len({type(key) for key in node}) == 1 else node:
        yield from _flat(node[key], (*path, str(key)))


def _clip_norm(value: Any) -> float | None:
    return _number("clip_norm", value, lambda n: n > 0, "above 0", "1.0")


def _ema(value: Any) -> float | None:
    return _number("ema", value, lambda n: 0 <= n < 1, "from 0 to below 1", "0.999")


def _number(
    name: str, said: Any, fits: Callable[[float], bool], range_: str, example: str
) -> float | None:
    if said is None:
        return None
    arrays = np.generic | np.ndarray | jax.Array
    scalar = isinstance(said, arrays) and np.ndim(said) == 0
    value: Any = np.asarray(said).item() if scalar else said
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and isfinite(value) and fits(value)):
        raise SettingError(
            f"{name}={value!r} is not a number {range_}",
            where=f"setting {name}",
            fix=f"{name}={example}, or None for off",
        )
    return float(value)
