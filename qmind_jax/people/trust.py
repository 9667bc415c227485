"""People who trust or distrust a robot.

Three families behind one interface. Each works on a *population* (leading axis of people) for one lane
at a time. A lane holds the index of its person and a pair of floats ``(z, x)``: ``(1 + z) / 2`` is
the probability of trust in every family, and ``x`` is what else the family remembers.
"""

import abc
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.parameters import ParametricPerson, bounded, fixed, positive, probability
from qmind_jax.people.population import check_range, field_of
from qmind_jax.people.predicting import Design, PredictingPerson
from qmind_jax.people.trust_answers import answer_probabilities, check_course
from qmind_jax.quantum import turn

TrustState = tuple[jax.Array, jax.Array]

_MOST_EXPERIENCE = 1e30
"""In ``BetaTrust``: a hundred million such weights still add up to less than the largest float32."""


class TrustingPerson(PredictingPerson, abc.ABC):
    """What an environment needs of people who trust.

    A condition of a design of :meth:`predict` is a pair ``(events, queries)``: what the robot did (1 a
    success, 0 a failure) and the indices of the k events after which the person is asked "do you trust
    the robot?". Its ``2 ** k`` cells are the strings of answers, "yes" before "no", the first answer
    varying slowest.
    """

    default_design: ClassVar[Design] = {"final": ((1, 1, 0, 1, 0, 1), (5,))}

    @classmethod
    def _check_condition(cls, name: str, condition: Any) -> tuple:
        try:
            events, queries = condition
        except (TypeError, ValueError):
            raise TypeError(
                f"{cls.__name__}: condition {name!r} must be a pair (events, queries), such as "
                f"((1, 0, 1), (2,)); got {condition!r}"
            ) from None
        return check_course(f"{cls.__name__}: condition {name!r}", events, queries)

    def _cells(self, condition: tuple) -> jax.Array:
        return answer_probabilities(self, *condition)

    @abc.abstractmethod
    def initial_trust(self, person: jax.Array) -> TrustState:
        """``(z, x)`` of person ``person`` (index) before anything has happened."""

    @abc.abstractmethod
    def after_outcome(self, trust: TrustState, person: jax.Array, success: jax.Array) -> TrustState:
        """Trust after the robot has succeeded or failed."""

    @abc.abstractmethod
    def after_answer(self, trust: TrustState, person: jax.Array, yes: jax.Array) -> TrustState:
        """Trust after the person has been asked "do you trust the robot?" and has answered."""

    @abc.abstractmethod
    def after_wait(self, trust: TrustState, person: jax.Array) -> TrustState:
        """Trust after nothing has happened for one step."""

    def average(self) -> Self:
        """The population of one person who has the mean of every parameter."""
        return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0, keepdims=True), self)


def p_trust(trust: TrustState) -> jax.Array:
    """Probability of trust, in [0, 1]."""
    return jnp.clip(0.5 * (1.0 + trust[0]), 0.0, 1.0)


def trust_after(people: TrustingPerson, outcomes: jax.Array) -> jax.Array:
    """Probability of trust of person 0 after each of a row of outcomes when nobody is asked, ``(T,)``.

    Args:
        people: A population of one; of more, gradients of the look-up would be slow.
        outcomes: Whether the robot succeeded, bool ``(T,)``.
    """

    def step(trust: TrustState, success: jax.Array) -> tuple[TrustState, jax.Array]:
        trust = people.after_outcome(trust, 0, success)
        return trust, p_trust(trust)

    return jax.lax.scan(step, people.initial_trust(0), outcomes)[1]


class TrustQubit(ParametricPerson, TrustingPerson):
    """Trust as a qubit in the real plane of the Bloch ball: an open quantum system.

    Success rotates the Bloch vector ``(z, x)`` by ``-a_pos``, failure by ``+a_neg``; every step without
    a question shrinks the coherence ``x`` by ``1 - gamma``. A question collapses trust to certainty.
    The rotation passes the pole, so success at full trust lowers it: a property of the model.
    Source: quantum-mind's ``OpenSystemBelief``.

    Attributes:
        phi0: Initial polar angle in radians; initial trust is ``cos(phi0 / 2) ** 2``.
        a_pos: Rotation by success, radians in (0, pi).
        a_neg: Rotation by failure, radians in (0, pi).
        gamma: Dephasing per step, in [0, 1].

    Each is a float scalar for one person or has shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    phi0: jax.Array = bounded(1.6, 0.0, np.pi, ends="unchecked", unit="rad")
    a_pos: jax.Array = bounded(0.8, 0.0, np.pi, ends="open", unit="rad")
    a_neg: jax.Array = bounded(1.2, 0.0, np.pi, ends="open", unit="rad")
    gamma: jax.Array = probability(0.3)

    def initial_trust(self, person: jax.Array) -> TrustState:
        """A pure state at polar angle ``phi0``."""
        return field_of(jnp.cos(self.phi0), person), field_of(jnp.sin(self.phi0), person)

    def after_outcome(self, trust: TrustState, person: jax.Array, success: jax.Array) -> TrustState:
        """Rotation by the outcome, then dephasing."""
        # Of the population, which a scan over steps computes once, and not of the angle of each lane.
        cosines = jnp.cos(self.a_pos), jnp.cos(self.a_neg)
        sines = -jnp.sin(self.a_pos), jnp.sin(self.a_neg)
        cosine, sine = (
            jnp.where(success, field_of(up, person), field_of(down, person)) for up, down in (cosines, sines)
        )
        z, x = turn(*trust, cosine, sine)
        return z, x * (1.0 - field_of(self.gamma, person))

    def after_answer(self, trust: TrustState, person: jax.Array, yes: jax.Array) -> TrustState:
        """Collapse to certain trust or certain distrust."""
        return _certain(trust, yes)

    def after_wait(self, trust: TrustState, person: jax.Array) -> TrustState:
        """Dephasing alone."""
        z, x = trust
        return z, x * (1.0 - field_of(self.gamma, person))


class MarkovTrust(ParametricPerson, TrustingPerson):
    """Trust as a two-state Markov chain.

    Success moves distrust to trust with probability ``up``, failure trust to distrust with probability
    ``down``. An answer reveals the state: trust becomes certain. Source: quantum-mind's
    ``MarkovBelief``.

    Attributes:
        p0: Initial probability of trust, in [0, 1].
        up: In [0, 1].
        down: In [0, 1].

    Each is a float scalar for one person or has shape ``(people,)``.

    Raises:
        ValueError: If a value is outside [0, 1].
    """

    p0: jax.Array = probability(0.5)
    up: jax.Array = probability(0.3)
    down: jax.Array = probability(0.3)

    def initial_trust(self, person: jax.Array) -> TrustState:
        """``z = 2 p0 - 1``; ``x`` stays 0."""
        z = 2.0 * field_of(self.p0, person) - 1.0
        return z, jnp.zeros_like(z)

    def after_outcome(self, trust: TrustState, person: jax.Array, success: jax.Array) -> TrustState:
        """One step of the chain."""
        z, x = trust
        towards_trust = z + (1.0 - z) * field_of(self.up, person)
        towards_distrust = z - (1.0 + z) * field_of(self.down, person)
        return jnp.where(success, towards_trust, towards_distrust), x

    def after_answer(self, trust: TrustState, person: jax.Array, yes: jax.Array) -> TrustState:
        """Certain trust or certain distrust."""
        return _certain(trust, yes)

    def after_wait(self, trust: TrustState, person: jax.Array) -> TrustState:
        """Nothing changes."""
        return trust


class BetaTrust(ParametricPerson, TrustingPerson):
    """Trust as the mean of a Beta distribution that counts experiences.

    Starts at ``alpha = n0 p0``, ``beta = n0 (1 - p0)``; success adds ``w_s`` to alpha, failure ``w_f`` to
    beta. Experience stabilises trust; asking about it leaves no trace. Only the weights relative to ``n0``
    matter. The pair ``(z, x)`` holds twice the mean minus one, and the amount of experience
    ``alpha + beta``. Source: Beta trust of Guo & Yang (2021).

    Attributes:
        p0: Initial trust, in [0, 1].
        n0: Initial amount of experience, positive and at most 1e30.
        w_s: Weight of a success, in [0, 1e30].
        w_f: Weight of a failure, in [0, 1e30].

    Each is a float scalar for one person or has shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    p0: jax.Array = probability(0.5)
    n0: jax.Array = fixed(1.0, 0.0, ends="open")
    w_s: jax.Array = positive(0.3, ends="closed")
    w_f: jax.Array = positive(0.3, ends="closed")

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        super()._validate(values)
        for name in ("n0", "w_s", "w_f"):
            check_range(type(self).__name__, name, values[name], 0.0, _MOST_EXPERIENCE)

    def initial_trust(self, person: jax.Array) -> TrustState:
        """``z = 2 p0 - 1`` and ``x = n0``."""
        return 2.0 * field_of(self.p0, person) - 1.0, field_of(self.n0, person)

    def after_outcome(self, trust: TrustState, person: jax.Array, success: jax.Array) -> TrustState:
        """One more experience, weighted by its kind."""
        z, experience = trust
        weight = jnp.where(success, field_of(self.w_s, person), field_of(self.w_f, person))
        total = experience + weight
        return (z * experience + jnp.where(success, weight, -weight)) / total, total

    def after_answer(self, trust: TrustState, person: jax.Array, yes: jax.Array) -> TrustState:
        """Nothing changes: telling one's trust is no experience with the robot."""
        return trust

    def after_wait(self, trust: TrustState, person: jax.Array) -> TrustState:
        """Nothing changes."""
        return trust


def _certain(trust: TrustState, yes: jax.Array) -> TrustState:
    z, x = trust
    return jnp.where(yes, jnp.ones_like(z), -jnp.ones_like(z)), jnp.zeros_like(x)
