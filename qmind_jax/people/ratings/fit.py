"""People whose trust moves as real people rated it: fits by least squares, and populations from them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax

from qmind_jax.names import unknown
from qmind_jax.people.population import check_range
from qmind_jax.people.ratings.least_squares_preset import FIRST_RATING_BETA, TRUST_PARAMETERS
from qmind_jax.people.ratings.trials import TrustTrials
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustingPerson, TrustQubit, trust_after

TrustFamily = Literal["qubit", "markov", "beta"]

_STARTS = 16
_STEPS = 1000
_LEARNING_RATE = 0.3


@dataclasses.dataclass(frozen=True)
class _Family:
    """How ratings make people of one family.

    Attributes:
        person: The class.
        initial: Field of initial trust, and its value from the first rating.
        upper: Fitted parameters and the upper end of their range, which begins at 0.
        fixed: Parameters that no rating can tell.
    """

    person: type[TrustingPerson]
    initial: tuple[str, Callable[[jax.Array], jax.Array]]
    upper: Mapping[str, float]
    fixed: Mapping[str, float]


_FAMILIES: dict[str, _Family] = {
    "qubit": _Family(
        TrustQubit,
        ("phi0", lambda rating: 2.0 * jnp.arccos(jnp.sqrt(rating))),
        {"a_pos": np.pi, "a_neg": np.pi, "gamma": 1.0},
        {},
    ),
    "markov": _Family(MarkovTrust, ("p0", lambda rating: rating), {"up": 1.0, "down": 1.0}, {}),
    # The mean of the Beta distribution stays the same when n0, w_s and w_f are all multiplied by one
    # number, so the initial experience is the unit.
    "beta": _Family(BetaTrust, ("p0", lambda rating: rating), {"w_s": np.inf, "w_f": np.inf}, {"n0": 1.0}),
}


TRUST_FAMILIES: Mapping[str, type[TrustQubit | MarkovTrust | BetaTrust]] = MappingProxyType(
    {name: _FAMILIES[name].person for name in sorted(_FAMILIES)}
)
"""The families whose people differ in a few numbers, by name."""


@dataclasses.dataclass(frozen=True)
class TrustFit:
    """Shared parameters of a trust family, fitted to ratings.

    Attributes:
        family: ``"qubit"``, ``"markov"`` or ``"beta"``.
        parameters: Fields of the family other than initial trust, in the units of its class.
        rmse: Root mean squared error of the fitted ratings, on their scale of [0, 1].
        num_ratings: Number of fitted ratings.
    """

    family: TrustFamily
    parameters: Mapping[str, float]
    rmse: float
    num_ratings: int

    def people(self, first_ratings: jax.Array) -> TrustingPerson:
        """A population with these parameters.

        Args:
            first_ratings: Initial trust of each person, in [0, 1], shape ``(people,)``. Differentiable
                between, but for the qubit not at, the ends.

        Raises:
            ValueError: If a first rating lies outside [0, 1].
        """
        ratings = jnp.asarray(first_ratings, float)
        if not isinstance(ratings, jax.core.Tracer):
            check_range("TrustFit.people", "first_ratings", ratings, 0.0, 1.0)
        return _people(self.family, self.parameters, ratings)


def predict_trust(people: TrustingPerson, robot_correct: jax.Array) -> jax.Array:
    """Trust after each of a row of outcomes when nobody is asked: no rating corrects the course.

    Args:
        people: A population of P people.
        robot_correct: Whether the robot succeeded, bool, shape ``(P, T)``.

    Returns:
        Probability of trust after each outcome, float in [0, 1], shape ``(P, T)``. Differentiable in
        the people.

    Raises:
        ValueError: If there is not one row of outcomes for each person.
    """
    if not people.is_population or jnp.ndim(robot_correct) != 2 or len(robot_correct) != len(people):
        raise ValueError(
            f"robot_correct must have shape (people, trials) for a population, got "
            f"{jnp.shape(robot_correct)} for {people}"
        )

    # Each person as a population of one: gradients of a gather over people would be a slow scatter.
    return jax.vmap(trust_after)(jax.tree.map(lambda leaf: leaf[:, None], people), robot_correct)


def fit_trust_family(trials: TrustTrials, family: TrustFamily, key: jax.Array | None = None) -> TrustFit:
    """Fit the shared parameters of one trust family by least squares.

    Predictions start from each participant's first ``trust_before`` and run freely through the outcomes;
    their squared distance from all ratings of ``trust_after`` is minimised by Adam from several random
    starts at once. No question is asked: a collapse plays no part in the fit.

    Ratings determine the weights of ``BetaTrust`` only in units of its initial experience, as
    multiplying ``n0``, ``w_s`` and ``w_f`` by one number changes no prediction; ``n0`` is set to 1.

    Args:
        trials: Ratings, with at least one success and one failure of the robot; for the qubit at least
            one participant with two trials, without which its dephasing would leave no trace.
        family: ``"qubit"`` (fits ``a_pos``, ``a_neg``, ``gamma``), ``"markov"`` (``up``, ``down``) or
            ``"beta"`` (``w_s``, ``w_f``).
        key: JAX random key of the starts; a fixed one if None.

    Raises:
        ValueError: For an unknown family, or if the trials cannot determine its parameters.
    """
    check_trust_family(family)
    observed = np.asarray(trials.observed)
    outcomes = set(np.asarray(trials.robot_correct)[observed].tolist())
    if outcomes != {True, False}:
        found = "no trials" if not outcomes else "only successes" if True in outcomes else "only failures"
        raise ValueError(
            "trials must hold successes and failures of the robot (robot_correct 1 and 0), without which "
            f"their effects cannot be fitted; got {found}"
        )
    if family == "qubit" and observed.shape[1] < 2:
        raise ValueError(
            "trials must hold two trials of a participant to fit the qubit's gamma, got one each"
        )
    reached, losses = _minimise(
        family,
        jax.random.key(0) if key is None else key,
        trials.first_ratings,
        trials.robot_correct,
        trials.trust_after,
        trials.observed,
    )
    best = int(jnp.nanargmin(losses))
    kind = _FAMILIES[family]
    parameters = {**kind.fixed, **{name: float(reached[name][best]) for name in kind.upper}}
    return TrustFit(family, parameters, float(jnp.sqrt(losses[best])), trials.num_ratings)


def held_out_errors(trials: TrustTrials, key: jax.Array | None = None) -> dict[str, float]:
    """How well each family predicts people that it was not fitted to.

    Participants 0, 2, 4, ... (in the order of ``trials.participants``) are fitted, the others predicted
    freely from their first rating and the robot's outcomes alone.

    Args:
        trials: Ratings of at least two participants.
        key: JAX random key of the starts of the fits; a fixed one if None.

    Returns:
        Root mean squared error over all ratings of the participants left out, on their scale of
        [0, 1]: for ``"beta"``, ``"markov"``, ``"qubit"``, and for ``"persistence"``, which predicts the
        first rating for ever.

    Raises:
        ValueError: If there are fewer than two participants, or the trials of those to be fitted cannot
            determine the parameters of a family.
    """
    if trials.num_participants < 2:
        raise ValueError(
            f"trials must hold at least two participants to leave some out, got {trials.num_participants}"
        )
    fitted, left_out = trials.select(slice(0, None, 2)), trials.select(slice(1, None, 2))
    first = left_out.first_ratings

    def rmse(predicted: jax.Array) -> float:
        return float(jnp.sqrt(_mean_square(predicted, left_out.trust_after, left_out.observed)))

    errors = {}
    for family in ("beta", "markov", "qubit"):
        people = fit_trust_family(fitted, family, key).people(first)
        errors[family] = rmse(predict_trust(people, left_out.robot_correct))
    return errors | {"persistence": rmse(first[:, None])}


def trust_population(
    key: jax.Array, n: int, family: TrustFamily = "qubit", trials: TrustTrials | None = None
) -> TrustingPerson:
    """People whose trust moves as real people rated it.

    All share the fitted parameters and differ in their initial trust. Without ``trials`` the numbers are
    those of :mod:`qmind_jax.people.ratings.least_squares_preset`, from 100 people who worked with a real
    robot. There, both classical families predict held-out people better than the qubit (root mean squared
    error .094 and .096 against .113), and nobody varied whether people were asked: what a question does
    to the trust of these people is the model's claim, not the data's.

    Args:
        key: JAX random key.
        n: Number of people, at least 1.
        family: ``"qubit"``, ``"markov"`` or ``"beta"``.
        trials: Ratings to fit the family to; initial trust is then drawn, with replacement, from their
            first ratings. To make many populations from the same ratings, fit once with
            :func:`fit_trust_family` and use :meth:`TrustFit.people`.

    Raises:
        ValueError: For an unknown family, fewer than one person, or if the trials cannot determine the
            parameters.
    """
    check_trust_family(family)
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if trials is None:
        return _people(family, TRUST_PARAMETERS[family], jax.random.beta(key, *FIRST_RATING_BETA, (n,)))
    start_key, draw_key = jax.random.split(key)
    fit = fit_trust_family(trials, family, start_key)
    return fit.people(jax.random.choice(draw_key, trials.first_ratings, (n,)))


def check_trust_family(family: str) -> None:
    """Raise ``ValueError`` for an unknown family of trusting people."""
    if family not in TRUST_FAMILIES:
        raise ValueError(unknown("family", family, TRUST_FAMILIES))


def _people(
    family: str, parameters: Mapping[str, jax.Array | float], first_ratings: jax.Array
) -> TrustingPerson:
    kind = _FAMILIES[family]
    name, initial = kind.initial
    shared = {field: jnp.full_like(first_ratings, value) for field, value in parameters.items()}
    return kind.person(**{name: initial(first_ratings)}, **shared)


def _mean_square(predicted: jax.Array, rated: jax.Array, observed: jax.Array) -> jax.Array:
    return jnp.mean((predicted - rated) ** 2, where=observed)


def _bounded(value: jax.Array, upper: float) -> jax.Array:
    """A number between 0 and ``upper`` from any number."""
    if upper == np.inf:
        return jax.nn.softplus(value)
    # Rounding makes the sigmoid exactly 0 or 1, and an end of the range is no valid rotation.
    return upper * (1e-6 + (1.0 - 2e-6) * jax.nn.sigmoid(value))


@functools.partial(jax.jit, static_argnames="family")
def _minimise(
    family: str,
    key: jax.Array,
    first_ratings: jax.Array,
    robot_correct: jax.Array,
    trust_after: jax.Array,
    observed: jax.Array,
) -> tuple[dict[str, jax.Array], jax.Array]:
    """Fitted parameters and mean squared error that Adam reaches from each start, arrays over starts."""
    kind = _FAMILIES[family]

    def parameters_of(free: jax.Array) -> dict[str, jax.Array]:
        return {name: _bounded(free[i], upper) for i, (name, upper) in enumerate(kind.upper.items())}

    def loss(free: jax.Array) -> jax.Array:
        people = _people(family, {**kind.fixed, **parameters_of(free)}, first_ratings)
        return _mean_square(predict_trust(people, robot_correct), trust_after, observed)

    # Adam takes the same number of steps from every start. optax's L-BFGS was no faster, left more starts
    # where the loss is flat, and its line search can go on for ever there in single precision.
    optimiser = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, _STEPS))

    def run(start: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        def step(carry: tuple, _: None) -> tuple[tuple, None]:
            free, state = carry
            updates, state = optimiser.update(jax.grad(loss)(free), state)
            return (optax.apply_updates(free, updates), state), None

        (free, _), _ = jax.lax.scan(step, (start, optimiser.init(start)), length=_STEPS)
        return parameters_of(free), loss(free)

    # Trust changes slowly: the starts lie around small steps, and spread widely.
    return jax.vmap(run)(-1.0 + 1.5 * jax.random.normal(key, (_STARTS, len(kind.upper))))
