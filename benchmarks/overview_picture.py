"""Draw the picture at the top of the README: ``python -m benchmarks.overview_picture``."""

import pathlib

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

import qmind_jax
from qmind_jax import plots
from qmind_jax.envs.trust_handover import ASK, HAND_OVER, WAIT
from qmind_jax.people import default_domain, handover_population
from qmind_jax.quantum import norm_squared
from qmind_jax.training import train
from qmind_jax.training.presets import PRESETS

PICTURE = pathlib.Path(__file__).parent.parent / "notebooks" / "images" / "overview.png"
OPTIMUM = -3.33683
"""Exact optimum of TrustHandover-v0 with the published person, by dynamic programming."""


def trust_when(second_action: int, steps: int = 12, people: int = 2000) -> np.ndarray:
    """Trust of many people whom a robot hands things to, doing something else on every second step."""
    env, params = qmind_jax.make(
        "TrustHandover-v0", people=handover_population(jax.random.key(1), people), n_steps=steps + 1
    )
    _, state = env.reset_batch(jax.random.key(2), params, people)
    trust = [0.5 * (1.0 + state.z)]
    for t in range(steps):
        action = jnp.full(people, HAND_OVER if t % 2 == 0 else second_action)
        key = jax.random.fold_in(jax.random.key(3), t)
        _, state, _, _, _, info = env.step_batch(key, state, action, params)
        trust.append(info["p_trust"])
    return np.stack(trust, axis=1)


def order_effect_of_default_person(intent: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probability of "yes" to "red?" and "left?", asked first and asked after the other."""
    person = default_domain()
    psi, questions = np.asarray(person.states[intent]), np.asarray(person.projectors[::2])
    first = np.array([norm_squared(p @ psi) for p in questions])
    branches = [np.stack([p @ psi, psi - p @ psi]) for p in questions]
    second = np.array(
        [norm_squared(branch @ p.T).sum() for p, branch in zip(questions, branches[::-1], strict=True)]
    )
    return first, second


def main() -> None:
    """Draw and save."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(
        1, 3, figsize=(14, 4.2), layout="constrained", width_ratios=(1, 0.8, 1.2)
    )
    plots.trust_over_time(
        left,
        {
            "hand over, wait, hand over ...": trust_when(WAIT),
            "hand over, ask, hand over ...": trust_when(ASK),
        },
    )
    left.set_title("Asking about trust changes trust")
    plots.order_effect(middle, *order_effect_of_default_person(), ["red?", "left?"])
    middle.set_title("Answers depend on the order")

    env, params = qmind_jax.make("TrustHandover-v0")
    config = PRESETS["TrustHandover-v0"]
    result = train(jax.random.split(jax.random.key(0), 5), env, params, config)
    plots.learning_curve(
        right,
        np.asarray(result.metrics["return"]),
        config.steps_per_update,
        {"exact optimum": OPTIMUM, "always wait": -6.0, "always ask": -10.0},
    )
    right.set_title("TrustHandover-v0: agents that reach the optimum")
    # Room for the legend below the lowest line.
    right.set_ylim(bottom=-13.0)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
