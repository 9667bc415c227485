"""The exact optimum of TrustHandover, for every person of a population."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.envs.checks import check_cost, check_count, check_fraction, check_people
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.people.mixed_trust import MixedTrust
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import TrustingPerson
from qmind_jax.policies.optimal.chunks import map_people, people_at_a_time
from qmind_jax.policies.optimal.handover_costs import HandoverCosts, means_after, rewards
from qmind_jax.policies.optimal.resolution import COARSE, MEDIUM, Resolution, layout_for
from qmind_jax.policies.optimal.trust_graph import EVENTS, TrustGraph, TrustLayout


@struct.dataclass
class HandoverOptimum:
    """The best an agent can do who knows the person, and so the person's trust at every time.

    Attributes:
        value: Expected return, float ``(people,)``.
        error: How far ``value`` may be from the optimum, float ``(people,)``: rounding, and interpolation
            where the best policy may come to it.
    """

    value: jax.Array
    error: jax.Array


def handover_optimum(
    people: TrustingPerson,
    params: TrustHandoverParams,
    *,
    tolerance: float = 1e-4,
    resolutions: tuple[Resolution, ...] = (COARSE, MEDIUM),
    memory_limit: int = 2**30,
) -> HandoverOptimum:
    """The exact optimum of ``TrustHandover`` for every person: dynamic programming over the state of trust.

    Outcomes, answers and own actions tell the agent the person's trust, which is a point of the Bloch disc
    (qubit), of [0, 1] (Markov) or a pair of counts (Beta). What can follow within a few hand-overs of the
    start or of an answer is a node of its own, and what comes after is interpolated in a mesh, so that only
    long hand-overs without a question are approximate; counts are exact.

    Differentiable in the people. While they are traced all are solved on the first resolution.

    Args:
        people: A population or one person; ``params.people`` is not looked at.
        params: Costs and ``n_steps``.
        tolerance: Whoever has a larger error is solved again on the next resolution.
        resolutions: At least one, from coarse to fine.
        memory_limit: Bytes for the people who are solved at a time.

    Raises:
        ValueError: If a number makes no sense or one person needs more than ``memory_limit``.
        TypeError: If the people do not trust, or are of an unknown family; for mixed families inside ``jit``,
            where it is not known how many people are of which.
    """
    people = as_population(people)
    check_people(people, TrustingPerson)
    if not isinstance(params, TrustHandoverParams):
        raise TypeError(f"params must be TrustHandoverParams, got {type(params).__name__}")
    if not resolutions:
        raise ValueError("resolutions must hold at least one Resolution, got none")
    if isinstance(people, MixedTrust):
        options = {"tolerance": tolerance, "resolutions": resolutions, "memory_limit": memory_limit}
        return _of_every_family(people, params, **options)
    costs, n_steps = costs_of(params, people), steps_of(params)
    first, *finer = resolutions
    optimum = _solve(people, costs, n_steps, first, batch_size_for(people, n_steps, first, memory_limit))
    if isinstance(optimum.error, jax.core.Tracer):
        return optimum
    for resolution in finer:
        (again,) = np.nonzero(np.asarray(optimum.error) > tolerance)
        if len(again) == 0:
            break
        batch_size = batch_size_for(people, n_steps, resolution, memory_limit)
        better = _solve(_padded(people, again), costs, n_steps, resolution, batch_size)
        optimum = jax.tree.map(
            lambda old, new, again=again: old.at[again].set(new[: len(again)]), optimum, better
        )
    return optimum


def _of_every_family(people: MixedTrust, params: TrustHandoverParams, **options: Any) -> HandoverOptimum:
    """The optima of the people of each family, in the order of all people."""
    nothing = jnp.zeros_like(people.initial)
    optimum = HandoverOptimum(nothing, nothing)
    for family in people.families:
        members = people.members(family)
        if members.size:
            of_members = handover_optimum(people.only(family), params, **options)
            optimum = jax.tree.map(
                lambda all_people, some, members=members: all_people.at[members].set(some),
                optimum,
                of_members,
            )
    return optimum


def costs_of(params: TrustHandoverParams, people: TrustingPerson) -> HandoverCosts:
    """The costs, checked unless traced, in the precision of the people."""
    names = ("fail_cost", "slow_cost", "ask_cost", "wait_cost", "slow_factor")
    for name in names:
        value = getattr(params, name)
        if not isinstance(value, jax.core.Tracer):
            (check_fraction if name == "slow_factor" else check_cost)(name, value)
    dtype = jax.tree.leaves(people)[0].dtype
    return HandoverCosts(*(jnp.asarray(getattr(params, name), dtype) for name in names))


def steps_of(params: TrustHandoverParams) -> int:
    """``n_steps``, which must be a number: it is the length of a loop."""
    if isinstance(params.n_steps, jax.core.Tracer):
        raise TypeError("n_steps must be a concrete integer, got a traced one")
    check_count("n_steps", params.n_steps)
    return int(params.n_steps)


def _means_after(
    layout: TrustLayout, graph: TrustGraph, slow_factor: jax.Array, values: jax.Array
) -> jax.Array:
    """Mean, for each action at each node, of the values of the states that it can lead to, ``(4, n)``."""
    success, failure, wait = (layout.after(graph, event, values) for event in EVENTS)
    yes, no = layout.after_answer(True, values), layout.after_answer(False, values)
    return means_after(
        1.0 - graph.p_trust, slow_factor, success=success, failure=failure, yes=yes, no=no, wait=wait
    )


def backward(
    layout: TrustLayout, graph: TrustGraph, costs: HandoverCosts, n_steps: int, *, keep: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Dynamic programming for one person.

    Returns:
        Value and error of every node, ``(n,)`` each, when ``n_steps`` are left; and, with ``keep``, the
        values when 0, 1, ... ``n_steps - 1`` are left, ``(n_steps, n)``.
    """
    reward = rewards(1.0 - graph.p_trust, costs)
    means = functools.partial(_means_after, layout, graph, costs.slow_factor)

    def earlier(later: tuple[jax.Array, jax.Array], _: None) -> tuple[Any, Any]:
        value, error = later
        values, errors = reward + means(value), means(error + layout.unevenness(value))
        best = values.max(axis=0)
        # An action that is worse by more than its error adds nothing to the error of the best.
        above, below = (values + errors).max(axis=0) - best, best - (values - errors).max(axis=0)
        return (best, jnp.maximum(above, below)), value if keep else None

    nothing = jnp.zeros_like(graph.p_trust)
    (value, error), kept = jax.lax.scan(earlier, (nothing, nothing), None, length=n_steps)
    return value, error, kept


@functools.partial(jax.jit, static_argnames=("n_steps", "resolution", "batch_size"))
def _solve(
    people: TrustingPerson, costs: HandoverCosts, n_steps: int, resolution: Resolution, batch_size: int
) -> HandoverOptimum:
    layout = layout_for(type(people), n_steps, resolution)

    def solve(person: TrustingPerson) -> HandoverOptimum:
        graph = layout.graph(jax.tree.map(lambda leaf: leaf[None], person))
        value, error, _ = backward(layout, graph, costs, n_steps)
        rounding = n_steps * jnp.finfo(value.dtype).eps * jnp.abs(value).max()
        return HandoverOptimum(value[0], jax.lax.stop_gradient(error[0] + rounding))

    return map_people(solve, people, batch_size)


def batch_size_for(people: TrustingPerson, n_steps: int, resolution: Resolution, memory_limit: int) -> int:
    """How many people can be solved at a time, at most all of them."""
    nodes = layout_for(type(people), n_steps, resolution).num_nodes
    # Three places after each node, as means of four nodes each, and what is computed from them.
    size = nodes * (12 * 4 + 40 * jax.tree.leaves(people)[0].dtype.itemsize)
    if size > memory_limit:
        raise ValueError(
            f"memory_limit must be at least {size} bytes, got {memory_limit}: {nodes} states of trust at "
            f"{resolution} and n_steps={n_steps}"
        )
    return min(people_at_a_time(size, memory_limit), len(people))


def _padded(people: TrustingPerson, index: np.ndarray) -> TrustingPerson:
    """The people at ``index``, repeated to a power of two so that few programs serve all numbers."""
    size = 2 ** (len(index) - 1).bit_length()
    return people[np.pad(index, (0, size - len(index)), mode="edge")]
