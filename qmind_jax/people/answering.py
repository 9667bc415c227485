"""People who answer yes/no questions about what they mean.

Both families work on a *population* (leading axis of people) for one lane at a time: a lane holds the
index of its person and a ``belief``, the little that the person's next answers depend on.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.entries import entries
from qmind_jax.noise import once
from qmind_jax.people.population import Person, check_range, entries_of, look_up, row_of
from qmind_jax.quantum import are_projectors, norm_squared, normalised, project


class AnsweringPerson(Person, abc.ABC):
    """What an environment needs of people who answer questions.

    Attributes:
        hypotheses: Labels of the H things that the person may mean.
        questions: Labels of the Q questions that can be asked.
    """

    hypotheses: tuple[str, ...]
    questions: tuple[str, ...]

    @property
    def num_hypotheses(self) -> int:
        """H, from the shapes of the arrays."""
        return self._sizes()[0]

    @property
    def num_questions(self) -> int:
        """Q, from the shapes of the arrays."""
        return self._sizes()[1]

    @abc.abstractmethod
    def _sizes(self) -> tuple[int, int]:
        """H and Q."""

    @abc.abstractmethod
    def initial_belief(self, person: jax.Array, intent: jax.Array) -> jax.Array:
        """The belief of person ``person`` (index) who means hypothesis ``intent`` (index)."""

    @abc.abstractmethod
    def p_yes(self, belief: jax.Array, person: jax.Array, question: jax.Array) -> jax.Array:
        """Probability of "yes" to ``question`` (index), a float scalar in [0, 1]."""

    @abc.abstractmethod
    def after_answer(
        self, belief: jax.Array, person: jax.Array, question: jax.Array, yes: jax.Array
    ) -> jax.Array:
        """The belief after the question has been answered."""

    def answer(
        self, belief: jax.Array, person: jax.Array, question: jax.Array, uniform: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Ask; what environments do.

        A family that overrides this has said again what :meth:`p_yes` and :meth:`after_answer` say: whoever
        changes those two in a subclass of it has to change this as well.

        Args:
            belief: What the answer depends on.
            person: Index of the person.
            question: Index of the question.
            uniform: A number in [0, 1): the answer is "yes" if it is below the probability of "yes".

        Returns:
            Whether the answer is "yes", bool scalar, and the belief after it.
        """
        yes = once(uniform < self.p_yes(belief, person, question))
        return yes, self.after_answer(belief, person, question, yes)


class ProjectiveAnswers(AnsweringPerson):
    """Answers that depend on the questions asked before (Lüders rule).

    Each hypothesis is a belief state, each question a projector. A "yes" has probability
    ``|P psi|^2`` and collapses the state to ``P psi``, a "no" to ``psi - P psi``, normalised. Asking
    the same question twice in a row gives the same answer. Source: quantum-mind's
    ``ProjectiveAnswerModel``; question order effects after Wang & Busemeyer (2013).

    Attributes:
        states: Unit vectors, float or complex, shape ``(H, d)``, or ``(people, H, d)``.
        projectors: Hermitian idempotent matrices of any rank, shape ``(Q, d, d)``, or
            ``(people, Q, d, d)``.
        hypotheses: H labels; ``h0, h1, ...`` if empty.
        questions: Q labels; ``q0, q1, ...`` if empty.

    Raises:
        ValueError: If shapes do not fit, a state is zero, or a matrix is no projector.
    """

    states: jax.Array
    projectors: jax.Array
    hypotheses: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    _person_ndims: ClassVar[dict[str, int]] = {"states": 2, "projectors": 3}
    _may_be_complex: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_labels(self)
        kind = jnp.promote_types(self.states.dtype, self.projectors.dtype)
        object.__setattr__(self, "states", normalised(self.states).astype(kind))
        object.__setattr__(self, "projectors", self.projectors.astype(kind))

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        states, projectors = values["states"], values["projectors"]
        dimension = states.shape[-1]
        if projectors.shape[-2:] != (dimension, dimension):
            raise ValueError(
                f"projectors must be {dimension} x {dimension} matrices, as the states have "
                f"{dimension} entries; got shape {projectors.shape}"
            )
        if np.any(np.abs(states).max(axis=-1) == 0.0):
            raise ValueError("states must not contain a zero vector")
        wrong = np.flatnonzero(~are_projectors(projectors.reshape(-1, dimension, dimension)))
        if wrong.size:
            number = int(wrong[0])
            question = number % projectors.shape[-3]
            label = self.questions[question] if self.questions else number
            raise ValueError(
                f"projectors: the matrix of question {label!r} is not a projector (expected "
                "P = P^H = P P within 1e-4), got\n"
                f"{projectors.reshape(-1, dimension, dimension)[number]}\n"
                "qmind_jax.quantum.projector(rows) makes one from vectors"
            )

    @classmethod
    def from_dicts(cls, states: Mapping[Any, Any], projectors: Mapping[Any, Any]) -> Self:
        """One person from dictionaries, as quantum-mind writes them.

        Args:
            states: ``{hypothesis: vector of length d}``; normalised here.
            projectors: ``{question: d x d projector}``. The order of the keys gives the indices.

        Raises:
            ValueError: If there are no hypotheses or questions, or the values do not fit together.
        """
        if not states or not projectors:
            raise ValueError(
                f"states and projectors must not be empty, got {len(states)} hypotheses and "
                f"{len(projectors)} questions"
            )
        return cls(
            states=_stack_rows("states", states),
            projectors=_stack_rows("projectors", projectors),
            hypotheses=tuple(str(label) for label in states),
            questions=tuple(str(label) for label in projectors),
        )

    def order_free(self) -> "IndependentAnswers":
        """The order-blind twin: every question answered as if it were asked first."""
        projected = jnp.einsum("...qij,...hj->...hqi", self.projectors, self.states)
        table = jnp.clip(norm_squared(projected), 0.0, 1.0)
        return IndependentAnswers(table, self.hypotheses, self.questions)

    def _sizes(self) -> tuple[int, int]:
        return self.states.shape[-2], self.projectors.shape[-3]

    def initial_belief(self, person: jax.Array, intent: jax.Array) -> jax.Array:
        """The state vector of the hypothesis, shape ``(d,)``."""
        return row_of(self.states, person, intent)

    def p_yes(self, belief: jax.Array, person: jax.Array, question: jax.Array) -> jax.Array:
        """``|P psi|^2``, clipped at 1 against rounding."""
        kept, _ = self._parts(belief, person, question)
        return jnp.minimum(_length_squared(kept), 1.0)

    def after_answer(
        self, belief: jax.Array, person: jax.Array, question: jax.Array, yes: jax.Array
    ) -> jax.Array:
        """The collapsed state vector, normalised unless it is numerically zero."""
        kept, dropped = self._parts(belief, person, question)
        scale = _to_unit_length(jnp.where(yes, _length_squared(kept), _length_squared(dropped)))
        return _chosen(yes, kept, dropped, once(scale))

    def answer(
        self, belief: jax.Array, person: jax.Array, question: jax.Array, uniform: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """As in :class:`AnsweringPerson`, with the lengths of both parts of the state measured once."""
        kept, dropped = self._parts(belief, person, question)
        p_yes, p_no = _length_squared(kept), _length_squared(dropped)
        yes = uniform < jnp.minimum(p_yes, 1.0)
        scale = _to_unit_length(jnp.where(yes, p_yes, p_no))
        # One array for both, as XLA on CPU would make two passes for two: the sign says "yes" or "no".
        signed = once(jnp.where(yes, scale, -scale))
        yes = signed > 0.0
        return yes, _chosen(yes, kept, dropped, jnp.abs(signed))

    def _parts(
        self, belief: jax.Array, person: jax.Array, question: jax.Array
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """The entries of ``P psi`` and of ``psi - P psi``."""
        kept = entries(project(entries_of(self.projectors, person, question), belief))
        return kept, [whole - part for whole, part in zip(entries(belief), kept, strict=True)]


class IndependentAnswers(AnsweringPerson):
    """Answers that do not depend on what was asked before (the classical assumption).

    Asking again draws again. Source: quantum-mind's ``IndependentAnswerModel``.

    Attributes:
        table: Probability of "yes" for each hypothesis and question, shape ``(H, Q)``, or
            ``(people, H, Q)``, in [0, 1].
        hypotheses: H labels; ``h0, h1, ...`` if empty.
        questions: Q labels; ``q0, q1, ...`` if empty.

    Raises:
        ValueError: If a probability is outside [0, 1] or the labels do not fit the table.
    """

    table: jax.Array
    hypotheses: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()

    _person_ndims: ClassVar[dict[str, int]] = {"table": 2}

    def __post_init__(self) -> None:
        super().__post_init__()
        _set_labels(self)

    def _validate(self, values: dict[str, np.ndarray]) -> None:
        check_range("IndependentAnswers", "table", values["table"], 0.0, 1.0)

    def _sizes(self) -> tuple[int, int]:
        return self.table.shape[-2], self.table.shape[-1]

    def initial_belief(self, person: jax.Array, intent: jax.Array) -> jax.Array:
        """The row of the hypothesis, shape ``(Q,)``."""
        return row_of(self.table, person, intent)

    def p_yes(self, belief: jax.Array, person: jax.Array, question: jax.Array) -> jax.Array:
        """The entry of the question."""
        return look_up(belief, question)

    def after_answer(
        self, belief: jax.Array, person: jax.Array, question: jax.Array, yes: jax.Array
    ) -> jax.Array:
        """The same row: asking leaves no trace."""
        return belief


def _set_labels(people: AnsweringPerson) -> None:
    """Fill in default labels and check that given ones fit the arrays."""
    for name, size, prefix in (
        ("hypotheses", people.num_hypotheses, "h"),
        ("questions", people.num_questions, "q"),
    ):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
        given = getattr(people, name)
        if isinstance(given, str):
            raise TypeError(f"{name} must be a sequence of labels, got the single text {given!r}")
        given = given.tolist() if isinstance(given, np.ndarray) else given
        labels = tuple(given) if len(given) else tuple(f"{prefix}{i}" for i in range(size))
        if len(labels) != size or len(set(labels)) != size:
            raise ValueError(f"{name} must be {size} different labels, got {list(labels)}")
        object.__setattr__(people, name, labels)


def _stack_rows(name: str, values: Mapping[Any, Any]) -> np.ndarray:
    rows = {label: np.asarray(value) for label, value in values.items()}
    if len({row.shape for row in rows.values()}) > 1:
        shapes = {label: row.shape for label, row in rows.items()}
        raise ValueError(f"{name} must all have one shape, got {shapes}")
    return np.stack(list(rows.values()))


def _length_squared(vector: list[jax.Array]) -> jax.Array:
    return norm_squared(jnp.stack(vector))


def _to_unit_length(squared: jax.Array) -> jax.Array:
    """What brings a vector of this squared length to length 1, and 1 if it is nothing but rounding."""
    # The length squared is the probability of the answer. Below 1e-15 (float64) or 1e-12 (float32) the answer
    # was impossible, and dividing would only blow up noise.
    least = max(1e-15, (8.0 * float(jnp.finfo(squared.dtype).eps)) ** 2)
    return jnp.where(squared > least, jax.lax.rsqrt(jnp.maximum(squared, least)), 1.0)


def _chosen(yes: jax.Array, kept: list[jax.Array], dropped: list[jax.Array], scale: jax.Array) -> jax.Array:
    return jnp.stack([jnp.where(yes, *pair) * scale for pair in zip(kept, dropped, strict=True)])
