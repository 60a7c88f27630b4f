"""Turn chosen constants of a flat jaxpr into inputs.

The order and the layout of its own inputs and outputs stay; the new inputs come last.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from .._experiment.device import default_device
from .explain import place_in
from .flat import Atom, Constant, Flat, FlatEqn
from .key import struct
from .skeleton import Skeleton, UnknownError
from .trace import epoch

Groups = tuple[tuple[int, ...], ...]
"""Positions of constants; one input for each group."""

_GROUPED = 16  # more constants than this share an input where they come from one place


def groups_of(skeleton: Skeleton, shared: Mapping[int, Hashable]) -> Groups:
    """The inputs that constants become: one each, or one for many of one place.

    Args:
        skeleton: What the constants are of.
        shared: Position -> what those share that may be one input.
    """
    positions = sorted(shared)
    if len(positions) <= _GROUPED:
        return tuple((position,) for position in positions)
    groups: dict[Hashable, list[int]] = {}
    for p in positions:
        constant = skeleton.constants[p]
        alike = shared[p], constant.token, _origin(constant)
        groups.setdefault(alike, []).append(p)
    return tuple(map(tuple, groups.values()))


def lift(closed: core.ClosedJaxpr, skeleton: Skeleton, groups: Groups) -> Any:
    """A closed jaxpr that takes one input more for each group of constants.

    Args:
        closed: The jaxpr that the skeleton is of.
        skeleton: Its flat form.
        groups: Positions among `skeleton.constants`; those of a group have one value.

    Raises:
        UnknownError: They stand where no input can reach.
    """
    firsts = [skeleton.constants[group[0]] for group in groups]
    own = len(closed.jaxpr.invars)

    def run(*arguments: Any) -> Any:
        lifted = {
            skeleton.constants[position]: value
            for group, value in zip(groups, arguments[own:], strict=True)
            for position in group
        }
        return _evaluate(skeleton.flat, arguments[:own], lifted)

    avals = [struct(var.aval) for var in closed.jaxpr.invars]
    with epoch():
        return jax.make_jaxpr(run)(*avals, *(struct(first.aval) for first in firsts))


def placed(constant: Constant) -> Any:
    """Its value on the device, as an argument of the program that takes it."""
    number = np.asarray(constant.value, constant.aval.dtype)
    return jax.device_put(number, default_device())


def words(constant: Constant) -> str:
    """Its value and where it is written."""
    place = place_in(constant.source)
    number = f"{float(constant.value):.6g}"
    return f"{number} ({place})" if place else number


def _origin(constant: Constant) -> Hashable:
    weak = getattr(constant.aval, "weak_type", False)
    return place_in(constant.source), str(constant.aval), weak


def _evaluate(
    flat: Flat, arguments: Sequence[Any], lifted: Mapping[Constant, Any]
) -> list[Any]:
    values: dict[int, Any] = dict(zip(flat.inputs, arguments, strict=True))
    values.update(flat.kept)

    def read(atom: Atom) -> Any:
        if isinstance(atom, int):
            return values[atom]
        if isinstance(atom, Constant):
            return lifted.get(atom, atom.value)
        return atom.val

    for one in flat.eqns:
        given = [read(atom) for atom in one.inputs]
        with one.eqn.ctx.manager:
            results = _bind(one, given, lifted)
        values.update(zip(one.outputs, results, strict=True))
    return [read(atom) for atom in flat.outputs]


def _bind(
    one: FlatEqn, given: list[Any], lifted: Mapping[Constant, Any]
) -> Sequence[Any]:
    primitive, params = one.eqn.primitive, one.eqn.params
    inner = [constant for body in one.bodies for constant in _constants(body)]
    inside = [constant for constant in dict.fromkeys(inner) if constant in lifted]
    if inside:
        params, given = _with_inputs(one, given, inside, lifted)
    results = primitive.bind(*given, **primitive.get_bind_params(params))
    return results if primitive.multiple_results else [results]


def _with_inputs(
    one: FlatEqn,
    given: list[Any],
    inside: list[Constant],
    lifted: Mapping[Constant, Any],
) -> tuple[dict[str, Any], list[Any]]:
    """The call with constants of its bodies as further operands."""
    params = dict(one.eqn.params)
    if "branches" in params:
        bodies = [_body(body, inside) for body in one.bodies]
        params["branches"] = tuple(bodies)
    else:
        params["jaxpr"] = _open(_body(one.bodies[0], inside))
    return params, [*given, *(lifted[constant] for constant in inside)]


def _body(flat: Flat, inside: list[Constant]) -> Any:
    own = len(flat.inputs)

    def run(*arguments: Any) -> Any:
        values = dict(zip(inside, arguments[own:], strict=True))
        return _evaluate(flat, arguments[:own], values)

    return jax.make_jaxpr(run)(*map(struct, (*flat.avals, *(c.aval for c in inside))))


def _open(closed: core.ClosedJaxpr) -> Any:
    """The jaxpr alone, as a checkpoint holds it."""
    if closed.consts:
        raise UnknownError("a checkpoint that holds arrays")
    return closed.jaxpr


def _constants(flat: Flat) -> list[Constant]:
    """Every constant of a flat jaxpr and of the bodies in it."""
    atoms: list[Atom] = list(flat.outputs)
    found: list[Constant] = []
    for one in flat.eqns:
        atoms += one.inputs
        found += [constant for body in one.bodies for constant in _constants(body)]
    return found + [atom for atom in atoms if isinstance(atom, Constant)]
