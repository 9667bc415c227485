"""People whose answers to two yes/no questions, A and B, depend on which is asked first.

A condition of a design is an order of questions, such as ``"AB"``: A first, then B. Its cells are the
answers yes-yes, yes-no, no-yes, no-no, the answer to the question asked first coming first. All families
but :class:`ProjectiveOrder` are made to be fitted. The parametrisations are those of quantum-mind.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.parameters import ParametricPerson, angle, as_label, bounded, probability, real
from qmind_jax.people.predicting import Design, PredictingPerson
from qmind_jax.quantum import is_projector, norm_squared, normalised, unit_vector

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class OrderPerson(ParametricPerson, PredictingPerson):
    """A person with a few parameters who is asked A then B, or B then A."""

    default_design: ClassVar[Design] = {"AB": "AB", "BA": "BA"}

    @classmethod
    def _check_condition(cls, name: str, condition: Any) -> str:
        if condition not in ("AB", "BA"):
            raise ValueError(f"{cls.__name__}: condition {name!r} must be 'AB' or 'BA', got {condition!r}")
        return condition


class QuantumOrder(OrderPerson):
    """Two projective questions about a state of R^3.

    The state is the first axis. Question A is about the direction ``(cos a, sin a, 0)``, B about
    ``(cos b, sin b cos g, sin b sin g)``: the projector of a question of rank 1 is that on its direction,
    of rank 2 that on the plane orthogonal to it. Every such person satisfies the QQ equality. Source:
    quantum-mind's ``QuantumOrderModel``, after Wang & Busemeyer (2013).

    Attributes:
        a: Angle of A in radians.
        b: Angle of B in radians.
        g: Angle in radians between the planes in which the two lie.
        ranks: Ranks of A and B, each 1 or 2; the same for all people. Fits compare the four choices.

    The angles are float scalars for one person or have shape ``(people,)``.

    Raises:
        ValueError: If a rank is neither 1 nor 2.
    """

    a: jax.Array = angle(0.8)
    b: jax.Array = angle(1.2)
    g: jax.Array = angle(0.3)
    ranks: tuple[int, int] = (1, 1)

    structures: ClassVar[tuple[Mapping[str, Any], ...]] = tuple(
        {"ranks": ranks} for ranks in ((1, 1), (1, 2), (2, 1), (2, 2))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.shape(self.ranks) != (2,) or any(rank not in (1, 2) for rank in self.ranks):
            raise ValueError(f"QuantumOrder: ranks must be two numbers, each 1 or 2, got {self.ranks!r}")
        object.__setattr__(self, "ranks", tuple(int(rank) for rank in self.ranks))

    def _cells(self, condition: str) -> jax.Array:
        first, second = (self.a, self.b) if condition == "AB" else (self.b, self.a)
        first_rank, second_rank = self.ranks if condition == "AB" else self.ranks[::-1]
        # The direction of the second question in three orthogonal directions: that of the first question,
        # what is left of the state without it, and the normal of these two.
        along = jnp.cos(first) * jnp.cos(second) + jnp.sin(first) * jnp.sin(second) * jnp.cos(self.g)
        across = jnp.sin(first) * jnp.cos(second) - jnp.cos(first) * jnp.sin(second) * jnp.cos(self.g)
        normal = jnp.sin(second) * jnp.sin(self.g)
        p_first, p_not = jnp.cos(first) ** 2, jnp.sin(first) ** 2
        cells = [
            [p_first * along**2, p_first * (across**2 + normal**2)],
            [p_not * across**2, p_not * (along**2 + normal**2)],
        ]
        # A question of rank 2 is the negation of one of rank 1.
        rows = cells if first_rank == 1 else cells[::-1]
        return jnp.stack([cell for row in rows for cell in (row if second_rank == 1 else row[::-1])])


class QuantumOrder4D(OrderPerson):
    """Two projective questions of rank 2 about a state of R^4, which commute when ``phi`` is 0.

    The axes of R^4 are the answers yes-yes, yes-no, no-yes and no-no of an order-free person. A is about
    the first two, B about the first and third after a rotation by ``phi`` in the planes of axes 1 and 4
    and of axes 2 and 3. With ``phi`` 0 there are no order effects, and :class:`BayesOrder` is this model.
    Every such person satisfies the QQ equality. Source: quantum-mind's ``QuantumOrderModel4D``.

    Attributes:
        t1: First hyperspherical angle of the state, radians (see :func:`qmind_jax.quantum.unit_vector`).
        t2: Second angle.
        t3: Third angle.
        phi: Rotation between the questions, radians.

    Each is a float scalar for one person or has shape ``(people,)``.
    """

    t1: jax.Array = angle(0.8)
    t2: jax.Array = angle(0.8)
    t3: jax.Array = angle(0.8)
    phi: jax.Array = angle(0.2)

    def _cells(self, condition: str) -> jax.Array:
        cosine, sine = jnp.cos(self.phi), jnp.sin(self.phi)
        state = unit_vector(jnp.stack([self.t1, self.t2, self.t3]))
        # Amplitudes of the first question's two answers; in each pair, those that go with "yes" and with
        # "no" to the other question where there are no order effects.
        if condition == "AB":
            pairs = (state[0], state[1]), (state[2], state[3])
        else:
            pairs = (
                (cosine * state[0] + sine * state[3], cosine * state[2] - sine * state[1]),
                (cosine * state[1] + sine * state[2], cosine * state[3] - sine * state[0]),
            )
        return jnp.stack(
            [
                (cosine * own) ** 2 + (sine * other) ** 2
                for yes, no in pairs
                for own, other in ((yes, no), (no, yes))
            ]
        )


class BayesOrder(OrderPerson):
    """A classical person with one joint distribution: the order of the questions makes no difference.

    Source: quantum-mind's ``BayesOrderModel``.

    Attributes:
        p_a: Probability of "yes" to A, in [0, 1].
        p_b: Probability of "yes" to B, in [0, 1].
        rho: Dependence in [-1, 1] as a fraction of the largest that ``p_a`` and ``p_b`` allow: 0 for
            independent answers, 1 for as many equal and -1 for as many opposite answers as possible.

    Each is a float scalar for one person or has shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    p_a: jax.Array = probability(0.5)
    p_b: jax.Array = probability(0.5)
    rho: jax.Array = bounded(0.0, -1.0, 1.0)

    def _cells(self, condition: str) -> jax.Array:
        p_a, p_b, rho = self.p_a, self.p_b, self.rho
        independent = p_a * p_b
        # Fréchet's bounds on the joint probability of two events of given probabilities.
        lowest = jnp.maximum(0.0, p_a + p_b - 1.0) - independent
        highest = jnp.minimum(p_a, p_b) - independent
        both = independent + rho * jnp.where(rho > 0, highest, -lowest)
        a_only, b_only, neither = p_a - both, p_b - both, 1.0 - p_a - p_b + both
        first, second = (a_only, b_only) if condition == "AB" else (b_only, a_only)
        return jnp.stack([both, first, second, neither])


class AnchoringOrder(OrderPerson):
    """A classical person whose second answer is drawn towards, or away from, the first.

    A weight w moves the probability of repeating the first answer: to certainty at 1, not at all at 0;
    a negative weight moves that of giving the other answer. The weight is that of the question asked
    second. Source: quantum-mind's ``AnchoringOrderModel``.

    Attributes:
        p_a: Probability of "yes" to A asked first, in [0, 1].
        p_b: Probability of "yes" to B asked first, in [0, 1].
        w_a: Weight when A is asked second, in (-0.99, 0.99).
        w_b: Weight when B is asked second, in (-0.99, 0.99).
        tied: Whether both weights are one: then ``w_b`` is not free and always set to ``w_a``.

    The parameters are float scalars for one person or have shape ``(people,)``.

    Raises:
        ValueError: If a value is outside its range.
    """

    p_a: jax.Array = probability(0.5)
    p_b: jax.Array = probability(0.5)
    w_a: jax.Array = bounded(0.2, -0.99, 0.99)
    w_b: jax.Array = bounded(0.2, -0.99, 0.99)
    tied: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tied", as_label(self.tied))
        if not isinstance(self.tied, bool):
            raise TypeError(f"AnchoringOrder: tied must be True or False, got {self.tied!r}")
        if self.tied:
            object.__setattr__(self, "w_b", self.w_a)
        super().__post_init__()

    @classmethod
    def free_names(cls, **options: Any) -> tuple[str, ...]:
        """Names of the free parameters, in order; without ``w_b`` where the weights are tied."""
        names = super().free_names(**options)
        return tuple(name for name in names if name != "w_b") if options.get("tied") else names

    def _cells(self, condition: str) -> jax.Array:
        p_first, p_second, weight = (
            (self.p_a, self.p_b, self.w_b) if condition == "AB" else (self.p_b, self.p_a, self.w_a)
        )
        towards, away = jnp.maximum(weight, 0.0), jnp.minimum(weight, 0.0)
        yes_after_yes = p_second * (1.0 + away) + towards * (1.0 - p_second)
        yes_after_no = p_second * (1.0 - towards) - away * (1.0 - p_second)
        return jnp.stack(
            [
                p_first * yes_after_yes,
                p_first * (1.0 - yes_after_yes),
                (1.0 - p_first) * yes_after_no,
                (1.0 - p_first) * (1.0 - yes_after_no),
            ]
        )


class SaturatedOrder(OrderPerson):
    """Any two distributions over four answers: the yardstick that no other family can beat on its data.

    Source: quantum-mind's ``SaturatedOrderModel``.

    Attributes:
        x0: Log odds of yes-yes against no-no when A is asked first.
        x1: The same of yes-no.
        x2: The same of no-yes.
        x3: Log odds of yes-yes against no-no when B is asked first.
        x4: The same of yes-no.
        x5: The same of no-yes.

    Each is a float scalar for one person or has shape ``(people,)``.
    """

    x0: jax.Array = real(0.0)
    x1: jax.Array = real(0.0)
    x2: jax.Array = real(0.0)
    x3: jax.Array = real(0.0)
    x4: jax.Array = real(0.0)
    x5: jax.Array = real(0.0)

    def _cells(self, condition: str) -> jax.Array:
        odds = (self.x0, self.x1, self.x2) if condition == "AB" else (self.x3, self.x4, self.x5)
        return jax.nn.softmax(jnp.stack([*odds, jnp.zeros_like(self.x0)]))


class ProjectiveOrder(PredictingPerson):
    """Projective questions of any number, rank and dimension, asked in any order; not fitted.

    A condition is a text of question letters, A for the first projector: ``"BAB"`` asks B, A and B again.
    Its ``2 ** k`` cells are the strings of k answers, "yes" before "no", the first answer varying slowest.
    Source: quantum-mind's ``ProjectiveQuestionModel``.

    Attributes:
        state: Unit vector, float or complex, shape ``(d,)`` or ``(people, d)``; normalised here.
        projectors: Hermitian idempotent matrices of 2 to 26 questions, shape ``(Q, d, d)`` or
            ``(people, Q, d, d)``.

    Raises:
        ValueError: If shapes do not fit, the state is zero, or a matrix is no projector.
    """

    state: jax.Array
    projectors: jax.Array

    _person_ndims: ClassVar[dict[str, int]] = {"state": 1, "projectors": 3}
    _may_be_complex: ClassVar[bool] = True
    default_design: ClassVar[Design] = OrderPerson.default_design

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = jnp.promote_types(self.state.dtype, self.projectors.dtype)
        object.__setattr__(self, "state", normalised(self.state).astype(kind))
        object.__setattr__(self, "projectors", self.projectors.astype(kind))

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        state, projectors = values["state"], values["projectors"]
        dimension = state.shape[-1]
        if projectors.shape[-2:] != (dimension, dimension) or not 2 <= projectors.shape[-3] <= 26:
            raise ValueError(
                f"projectors must be 2 to 26 matrices of {dimension} x {dimension}, as the state has "
                f"{dimension} entries; got shape {projectors.shape}"
            )
        if np.any(np.abs(state).max(axis=-1) == 0.0):
            raise ValueError("state must not be the zero vector")
        if not is_projector(projectors):
            raise ValueError(
                "projectors must be Hermitian and idempotent (P = P^H = P P within 1e-4); "
                f"qmind_jax.quantum.projector(rows) makes one from vectors. Got\n{projectors}"
            )

    @classmethod
    def _check_condition(cls, name: str, condition: Any) -> str:
        if not isinstance(condition, str) or not condition or not set(condition) <= set(_LETTERS):
            raise ValueError(
                f"ProjectiveOrder: condition {name!r} must be a text of question letters such as 'AB', got "
                f"{condition!r}"
            )
        return condition

    def _cells(self, condition: str) -> jax.Array:
        questions = [_LETTERS.index(letter) for letter in condition]
        if max(questions) >= len(self.projectors):
            last = _LETTERS[len(self.projectors) - 1]
            raise ValueError(f"this person knows the questions A to {last}, got the order {condition!r}")
        return _sequence_probabilities(self.state, [self.projectors[question] for question in questions])


def _sequence_probabilities(state: jax.Array, projectors: Sequence[jax.Array]) -> jax.Array:
    """Lüders rule: probabilities of all strings of answers to questions asked one after another."""
    branches = state[None]
    for matrix in projectors:
        # Not a matrix product: those of accelerators are of low precision unless told otherwise.
        yes = jnp.sum(matrix * branches[:, None, :], axis=-1)
        branches = jnp.stack([yes, branches - yes], axis=1).reshape(-1, state.size)
    return norm_squared(branches)
