"""The best policy for the worst episodes: the optimum of CVaR in TrustHandover."""

import fractions
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.envs.checks import check_people
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import TrustingPerson
from qmind_jax.policies.optimal.chunks import map_people, people_at_a_time
from qmind_jax.policies.optimal.handover import costs_of, steps_of
from qmind_jax.policies.optimal.handover_costs import HandoverCosts
from qmind_jax.policies.optimal.resolution import COARSE, Resolution, layout_for
from qmind_jax.policies.optimal.trust_graph import EVENTS


@struct.dataclass
class RiskOptimum:
    """The best mean of the worst fraction of episodes.

    Attributes:
        value: CVaR of the best policy for it, float ``(people,)``.
        threshold: Return up to which an episode counts as one of the worst, float ``(people,)``.
    """

    value: jax.Array
    threshold: jax.Array


def handover_cvar_optimum(
    people: TrustingPerson,
    params: TrustHandoverParams,
    level: float,
    *,
    resolution: Resolution = COARSE,
    max_returns: int = 1024,
    memory_limit: int = 2**30,
) -> RiskOptimum:
    """The highest CVaR of the return that any policy with full recall reaches, for every person.

    CVaR at a level is the largest over thresholds t of ``t - E[max(t - return, 0)] / level``. For a fixed
    threshold that is an ordinary problem in the pair of trust and of what is still missing to the threshold
    (Rockafellar & Uryasev 2000; Baeuerle & Ott 2011), which is solved for all thresholds at once.

    Args:
        people: A population or one person.
        params: Costs and ``n_steps``; not traced.
        level: Fraction of the worst episodes, in (0, 1]; 1 is the mean.
        resolution: How finely states of trust are told apart.
        max_returns: How many returns are told apart. Where all rewards are multiples of a number and that
            needs no more, the returns are exact, otherwise interpolated.
        memory_limit: Bytes for the people who are solved at a time.

    Raises:
        ValueError: If a number makes no sense or one person needs more than ``memory_limit``.
        TypeError: If the people do not trust.
    """
    people = as_population(people)
    check_people(people, TrustingPerson)
    if not 0.0 < level <= 1.0:
        raise ValueError(f"level must lie in (0, 1], got {level!r}")
    if max_returns < 2:
        raise ValueError(f"max_returns must be at least 2, got {max_returns}")
    costs, n_steps = costs_of(params, people), steps_of(params)
    thresholds = _thresholds(costs, n_steps, max_returns)
    nodes = layout_for(type(people), n_steps, resolution).num_nodes
    size = 8 * nodes * len(thresholds) * thresholds.itemsize
    if size > memory_limit:
        raise ValueError(
            f"memory_limit must be at least {size} bytes, got {memory_limit}: {nodes} states of trust and "
            f"{len(thresholds)} returns; lower max_returns"
        )
    batch_size = min(people_at_a_time(size, memory_limit), len(people))
    return _solve(
        people, costs, jnp.asarray(thresholds, costs.fail.dtype), level, n_steps, resolution, batch_size
    )


def _thresholds(costs: HandoverCosts, n_steps: int, max_returns: int) -> np.ndarray:
    """Equally spaced returns from what waiting alone earns, or less, to the most that can be earned."""
    rewards = _rewards(jax.tree.map(float, costs))
    # Of less than this no episode need fall short: waiting costs no more.
    low, high = n_steps * min(rewards["wait"], 0.0), n_steps * max(*rewards.values(), 0.0)
    parts = [fractions.Fraction(reward).limit_denominator(1000) for reward in rewards.values()]
    denominator = math.lcm(*(part.denominator for part in parts))
    step = math.gcd(*(int(part * denominator) for part in parts)) / denominator
    exact = all(
        abs(float(part) - reward) < 1e-6 for part, reward in zip(parts, rewards.values(), strict=True)
    )
    number = round((high - low) / step) + 1 if exact else max_returns + 1
    return low + step * np.arange(number) if number <= max_returns else np.linspace(low, high, max_returns)


def _rewards(costs: HandoverCosts) -> dict[str, float]:
    return {
        "success": 1.0 + 0.0 * costs.fail,
        "failure": -costs.fail,
        "slow success": 1.0 - costs.slow,
        "slow failure": -costs.fail - costs.slow,
        "ask": -costs.ask,
        "wait": -costs.wait,
    }


@functools.partial(jax.jit, static_argnames=("n_steps", "resolution", "batch_size"))
def _solve(
    people: TrustingPerson,
    costs: HandoverCosts,
    thresholds: jax.Array,
    level: float,
    n_steps: int,
    resolution: Resolution,
    batch_size: int,
) -> RiskOptimum:
    layout = layout_for(type(people), n_steps, resolution)
    step, size = thresholds[1] - thresholds[0], len(thresholds)
    reward = _rewards(costs)

    def missing(values: jax.Array, name: str) -> jax.Array:
        """The values ``(thresholds, n)`` when a reward has been earned: that much less is missing."""
        place = jnp.arange(size) - reward[name] / step
        # Rounding keeps exact returns exact.
        place = jnp.where(jnp.abs(place - jnp.rint(place)) < 1e-3, jnp.rint(place), place)
        below = jnp.clip(jnp.floor(place), 0, size - 2).astype(int)
        share = jnp.clip(place - below, 0.0, 1.0)[:, None]
        # No episode reaches a threshold above the highest: what is missing beyond it is missing for certain.
        beyond = jnp.maximum(place - (size - 1), 0.0)[:, None] * step
        return (1.0 - share) * values[below] + share * values[below + 1] - beyond

    def solve(person: TrustingPerson) -> RiskOptimum:
        graph = layout.graph(jax.tree.map(lambda leaf: leaf[None], person))
        p_fail = 1.0 - graph.p_trust

        def earlier(later: jax.Array, _: None) -> tuple[jax.Array, None]:
            success, failure, wait = (
                jax.vmap(functools.partial(layout.after, graph, event))(later) for event in EVENTS
            )
            yes, no = (
                jax.vmap(functools.partial(layout.after_answer, answer))(later) for answer in (True, False)
            )
            yes, no = (jnp.broadcast_to(jnp.reshape(leaf, (size, -1)), later.shape) for leaf in (yes, no))

            def mixed(p_second: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
                return first + p_second * (second - first)

            fast = mixed(p_fail, missing(success, "success"), missing(failure, "failure"))
            slow = mixed(
                p_fail * costs.slow_factor,
                missing(success, "slow success"),
                missing(failure, "slow failure"),
            )
            ask = missing(mixed(p_fail, yes, no), "ask")
            return jnp.stack([fast, slow, ask, missing(wait, "wait")]).max(axis=0), None

        shortfall = -jnp.maximum(thresholds, 0.0)[:, None]
        end = jnp.broadcast_to(shortfall, (size, len(graph.p_trust)))
        values, _ = jax.lax.scan(earlier, end, None, length=n_steps)
        cvar = thresholds + values[:, 0] / level
        best = jnp.argmax(cvar)
        return RiskOptimum(cvar[best], thresholds[best])

    return map_people(solve, people, batch_size)
