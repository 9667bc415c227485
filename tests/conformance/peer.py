"""The real quantum-mind, made deterministic: its random numbers come from a script.

``play_clarification`` and ``play_trust_handover`` step the peer's environments with given uniform
numbers and actions and write down everything that can be compared.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from quantum_mind.applications.questioning import IndependentAnswerModel, ProjectiveAnswerModel
from quantum_mind.envs import ClarificationEnv, TrustHandoverEnv
from quantum_mind.families.dynamics import OpenSystemBelief

from qmind_jax.people import IndependentAnswers, ProjectiveAnswers, TrustQubit

MARGIN = 1e-6
"""Closer than this to its threshold, the outcome of a float32 uniform number is a matter of rounding."""


class ScriptedUniforms:
    """Stands in for a NumPy ``Generator`` and hands out uniform numbers that were fed to it, in order."""

    def __init__(self, uniforms: Iterable[float] = ()) -> None:
        self._script = collections.deque(float(u) for u in uniforms)

    def feed(self, *uniforms: float) -> None:
        self._script.extend(float(u) for u in uniforms)

    def random(self) -> float:
        assert self._script, "the peer asked for a random number that the script does not have"
        return self._script.popleft()

    def integers(self, n: int) -> int:
        return min(int(self.random() * n), n - 1)

    @property
    def left(self) -> int:
        """How many numbers have been fed and not used."""
        return len(self._script)


def away_from(threshold: float, uniform: np.float32) -> np.float32:
    """``uniform``, or a fixed other number a few margins away if it is too close to the threshold."""
    for candidate in (uniform, uniform + np.float32(4 * MARGIN), uniform - np.float32(4 * MARGIN)):
        if 0 <= candidate < 1 and abs(float(candidate) - threshold) >= MARGIN:
            return candidate
    raise AssertionError(f"no number near {uniform} keeps its distance from {threshold}")


def uniforms(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """float32 numbers in [0, 1), all multiples of 2**-24."""
    return rng.integers(2**24, size=shape).astype(np.float32) * np.float32(2.0**-24)


def choice(rng: np.random.Generator, size: int) -> np.float32:
    """A uniform number that picks one of ``size``, clear of the borders between them."""
    index = int(rng.integers(size))
    return np.float32((index + rng.uniform(0.01, 0.99)) / size)


def answer_models(people: ProjectiveAnswers | IndependentAnswers) -> list[Any]:
    """The peer's model of each person of a population, with the same numbers in double precision."""
    if isinstance(people, IndependentAnswers):
        return [
            IndependentAnswerModel(person.hypotheses, person.questions, np.asarray(person.table, float))
            for person in people
        ]
    return [
        ProjectiveAnswerModel(
            dict(zip(person.hypotheses, _double(person.states), strict=True)),
            dict(zip(person.questions, _double(person.projectors), strict=True)),
        )
        for person in people
    ]


def trust_models(people: TrustQubit) -> list[OpenSystemBelief]:
    """The peer's model of each person of a population, with the same numbers in double precision."""
    fields = [field.name for field in dataclasses.fields(people)]
    return [OpenSystemBelief(**{name: float(getattr(person, name)) for name in fields}) for person in people]


def play_clarification(
    people: ProjectiveAnswers | IndependentAnswers,
    costs: Mapping[str, Any],
    *,
    seed: int,
    episodes: int,
    horizon: int,
    p_act: float = 0.12,
) -> dict[str, np.ndarray]:
    """Play random episodes of the peer's ClarificationEnv to their ends.

    Returns:
        Arrays with a leading axis of episodes, then of ``horizon`` steps: the script
        (``person_uniform``, ``intent_uniform``, ``answer_uniform``, ``action``) and what the peer made of
        it. ``alive`` says which steps took place.
    """
    rng = np.random.default_rng(seed)
    models = answer_models(people)
    env = ClarificationEnv(people=models, **costs)
    num_questions, num_hypotheses = env.Q, env.H
    shape = (episodes, horizon)
    script = {
        "person_uniform": np.array([choice(rng, len(models)) for _ in range(episodes)]),
        "intent_uniform": np.array([choice(rng, num_hypotheses) for _ in range(episodes)]),
        "answer_uniform": uniforms(rng, *shape),
        "action": np.where(
            rng.random(shape) < p_act,
            num_questions + rng.integers(num_hypotheses, size=shape),
            rng.integers(num_questions, size=shape),
        ).astype(np.int32),
    }
    log = {
        "person": np.zeros(episodes, int),
        "intent": np.zeros(episodes, int),
        "first_observation": np.zeros((episodes, num_questions), np.float32),
        "alive": np.zeros(shape, bool),
        "observation": np.zeros((*shape, num_questions), np.float32),
        "reward": np.zeros(shape),
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
        "question_answer": np.full(shape, -1),
        "correct": np.zeros(shape, bool),
        "p_yes": np.zeros(shape),
    }
    for e in range(episodes):
        env.np_random = numbers = ScriptedUniforms([script["person_uniform"][e], script["intent_uniform"][e]])
        log["first_observation"][e], info = env.reset()
        assert numbers.left == 0, "a reset uses one number for the person and one for the intent"
        log["person"][e] = next(i for i, model in enumerate(models) if model is env.model)
        log["intent"][e] = env.model.hypotheses.index(info["target"])
        for t in range(horizon):
            action = int(script["action"][e, t])
            if action < num_questions:
                question = env.model.questions[action]
                p_yes = env.model.p_yes(env.target, env.history, question)
                uniform = away_from(p_yes, script["answer_uniform"][e, t])
                numbers.feed(uniform)
                log["p_yes"][e, t], script["answer_uniform"][e, t] = p_yes, uniform
            observation, reward, terminated, truncated, info = env.step(action)
            assert numbers.left == 0, "asking uses one number, acting none"
            log["alive"][e, t] = True
            log["observation"][e, t] = observation
            log["reward"][e, t] = reward
            log["terminated"][e, t], log["truncated"][e, t] = terminated, truncated
            log["question_answer"][e, t] = info.get("answer", -1)
            log["correct"][e, t] = info.get("correct", False)
            if terminated or truncated:
                break
        assert terminated or truncated
        # Thanks to the margin no answer had a probability below 1e-6: there is nothing to skip.
        if env.history:
            assert env.model.likelihood(env.target, env.history) > (0.5 * MARGIN) ** len(env.history)
    return script | log


def play_trust_handover(
    people: TrustQubit,
    costs: Mapping[str, Any],
    *,
    seed: int,
    episodes: int,
    horizon: int,
) -> dict[str, np.ndarray]:
    """Play random episodes of the peer's TrustHandoverEnv to their ends.

    Returns:
        As :func:`play_clarification`, with ``horizon`` steps of which the first ``n_steps`` are alive.
        ``rho01`` is the coherence of the peer's density matrix.
    """
    rng = np.random.default_rng(seed)
    models = trust_models(people)
    env = TrustHandoverEnv(people=models, **costs)
    shape = (episodes, horizon)
    script = {
        "person_uniform": np.array([choice(rng, len(models)) for _ in range(episodes)]),
        "outcome_uniform": uniforms(rng, *shape),
        "action": rng.integers(4, size=shape).astype(np.int32),
    }
    log = {
        "person": np.zeros(episodes, int),
        "first_observation": np.zeros((episodes, 3), np.float32),
        "first_p_trust": np.zeros(episodes),
        "first_rho01": np.zeros(episodes),
        "alive": np.zeros(shape, bool),
        "observation": np.zeros((*shape, 3), np.float32),
        "reward": np.zeros(shape),
        "terminated": np.zeros(shape, bool),
        "truncated": np.zeros(shape, bool),
        "p_trust": np.zeros(shape),
        "rho01": np.zeros(shape),
    }
    for e in range(episodes):
        env.np_random = numbers = ScriptedUniforms([script["person_uniform"][e]])
        log["first_observation"][e], info = env.reset()
        assert numbers.left == 0, "a reset uses one number for the person"
        log["person"][e] = next(i for i, model in enumerate(models) if model is env.model)
        log["first_p_trust"][e], log["first_rho01"][e] = info["p_trust"], env.rho[0, 1]
        for t in range(horizon):
            action = int(script["action"][e, t])
            if action < 3:
                trusts = env.p_trust
                threshold = (
                    trusts if action == 2 else (1 - trusts) * (env.slow_factor if action == 1 else 1.0)
                )
                uniform = away_from(threshold, script["outcome_uniform"][e, t])
                numbers.feed(uniform)
                script["outcome_uniform"][e, t] = uniform
            observation, reward, terminated, truncated, info = env.step(action)
            assert numbers.left == 0, "handing over and asking use one number, waiting none"
            log["alive"][e, t] = True
            log["observation"][e, t] = observation
            log["reward"][e, t] = reward
            log["terminated"][e, t], log["truncated"][e, t] = terminated, truncated
            log["p_trust"][e, t], log["rho01"][e, t] = info["p_trust"], env.rho[0, 1]
            if terminated or truncated:
                break
        assert truncated
    return script | log


def _double(values: Any) -> np.ndarray:
    return np.asarray(values).astype(np.result_type(np.asarray(values), np.float64))
