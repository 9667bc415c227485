"""The people on whom a policy fails: a search for the highest regret or the lowest return."""

import dataclasses
import functools
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import differential_evolution

from qmind_jax.environment import Environment
from qmind_jax.envs.trust_handover import TrustHandoverParams
from qmind_jax.evaluation.regret import optima, regret
from qmind_jax.evaluation.returns import evaluate
from qmind_jax.people.population import Person
from qmind_jax.people.regions import Region
from qmind_jax.policies.optimal import COARSE
from qmind_jax.policies.policy import Policy

Search = Literal["evolution", "random"]
Measure = Literal["regret", "return"]
_HARDER: dict[str, float] = {"regret": 1.0, "return": -1.0}
"""The sign of a measure that grows with how hard somebody is."""


@dataclasses.dataclass(frozen=True)
class HardPeople:
    """The hardest people that a search has met, the hardest first.

    Attributes:
        people: A population of n.
        points: Where they lie in the region searched, in [0, 1], float ``(n, k)``.
        regret: Mean regret of each against the best policy that knows the person, judged by episodes that
            had no part in the search, in units of reward, float ``(n,)``.
        standard_error: Of each regret, and of each mean return, float ``(n,)``.
        optimum: Expected return of the best policy for each, float ``(n,)``.
        mean_return: Mean return of the policy with each, of the same episodes as ``regret``, ``(n,)``.
        found: The measure as the search saw it, ``(n,)``: too bad on average, as it was chosen for being bad.
        history: The worst that the search had seen after each generation, ``(generations,)``.
    """

    people: Person
    points: np.ndarray
    regret: np.ndarray
    standard_error: np.ndarray
    optimum: np.ndarray
    mean_return: np.ndarray
    found: np.ndarray
    history: np.ndarray


def find_hard_people(
    policy: Policy,
    env: Environment,
    params: Any,
    region: Region,
    key: jax.Array,
    *,
    number: int = 16,
    candidates: int = 64,
    generations: int = 20,
    episodes: int = 256,
    judging_episodes: int = 2048,
    search: Search = "evolution",
    measure: Measure = "regret",
) -> HardPeople:
    """Search a region for the people with whom a policy earns most below their own optimum, or least.

    SciPy's differential evolution (Storn & Price 1997), whose candidates are all judged at once, by one
    compiled program and on the same noise: a candidate is worse for what it is, not for its luck. What was
    found is then judged again on other noise.

    Args:
        policy: A policy for one lane.
        env: The environment that it acts in; for a trained policy ``config.wrap(env)``.
        params: Parameters of the environment; their people are not looked at.
        region: Who is plausible, such as :class:`~qmind_jax.people.regions.PeopleWithin` or
            :class:`~qmind_jax.people.regions.CredibleRegion`.
        key: JAX random key.
        number: People to return.
        candidates: People judged at once, at least 5.
        generations: How often, at least 1; a search sees ``candidates * generations`` people.
        episodes: With each candidate.
        judging_episodes: With each person returned, on fresh noise.
        search: ``"random"`` draws uniform points of the region instead, as many.
        measure: Who is hard: ``"regret"`` looks for those with whom the best policy that knows them would
            earn most on top, ``"return"`` for those with whom the policy earns least, though perhaps no
            policy earns more.

    Raises:
        ValueError: If a number makes no sense, there are fewer candidates in all than ``number``, or
            ``search`` or ``measure`` is unknown.
        TypeError: If the optimum of this environment is not known.
    """
    _check(number, candidates, generations, episodes, judging_episodes)
    _check_choice("search", search, Search)
    _check_choice("measure", measure, Measure)
    key_search, key_start, key_judge = jax.random.split(key, 3)
    coarse = {"resolutions": (COARSE,)} if isinstance(params, TrustHandoverParams) else {}
    seen_points: list[np.ndarray] = []
    seen: list[np.ndarray] = []
    harder = _HARDER[measure]

    def hardness(points: np.ndarray) -> np.ndarray:
        people = region.people(jnp.asarray(points, float))
        value = _mean_returns(policy, env, params, people, key_search, episodes)
        if measure == "regret":
            value = optima(params.replace(people=people), **coarse) - value
        seen_points.append(points)
        seen.append(harder * np.asarray(value, float))
        return seen[-1]

    generator = np.random.default_rng(np.asarray(jax.random.bits(key_start, (4,))))
    if search == "random":
        for points in generator.uniform(size=(generations, candidates, region.dimension)):
            hardness(points)
    else:
        differential_evolution(
            lambda columns: -hardness(columns.T),
            [(0.0, 1.0)] * region.dimension,
            init=generator.uniform(size=(candidates, region.dimension)),
            maxiter=generations - 1,
            tol=-1.0,  # never converged: the budget is what was asked for
            polish=False,
            vectorized=True,
            updating="deferred",
            rng=generator,
        )
    found, points = np.concatenate(seen), np.concatenate(seen_points)
    worst = np.argsort(-found, kind="stable")[:number]
    people = region.people(jnp.asarray(points[worst], float))
    params = params.replace(people=people)
    returns = evaluate(policy, env, params, key_judge, number * judging_episodes, balanced=True)
    optimum = optima(params)
    judged = regret(returns, optimum).by_person
    return HardPeople(
        people=people,
        points=points[worst],
        regret=np.asarray(judged.mean),
        standard_error=np.asarray(judged.standard_error),
        optimum=np.asarray(optimum),
        mean_return=np.asarray(returns.by_person.mean),
        found=harder * found[worst],
        history=harder * np.maximum.accumulate([each.max() for each in seen]),
    )


@functools.partial(jax.jit, static_argnames=("env", "episodes"))
def _mean_returns(
    policy: Policy, env: Environment, params: Any, people: Person, key: jax.Array, episodes: int
) -> jax.Array:
    """Mean return of a policy with each person, all on the same noise, float ``(people,)``."""

    def with_one(person: Person) -> jax.Array:
        alone = jax.tree.map(lambda leaf: leaf[None], person)
        return evaluate(policy, env, params.replace(people=alone), key, episodes).mean

    return jax.vmap(with_one)(people)


def _check(number: int, candidates: int, generations: int, episodes: int, judging_episodes: int) -> None:
    least = {"number": 1, "candidates": 5, "generations": 1, "episodes": 2, "judging_episodes": 2}
    values = (number, candidates, generations, episodes, judging_episodes)
    for (name, low), value in zip(least.items(), values, strict=True):
        if value < low:
            raise ValueError(f"{name} must be at least {low}, got {value}")
    if number > candidates * generations:
        raise ValueError(
            f"number must be at most candidates * generations = {candidates * generations}, got {number}"
        )


def _check_choice(name: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {list(get_args(choices))}, got {value!r}")
