"""Generalised advantages against arithmetic done by hand and against a slow loop."""

import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.training.gae import generalised_advantages

# Three steps of one lane, discount 1/2 and lambda 1/2, so that every number below is exact in binary:
#   r = 1, 2, 3    V = 4, 2, 1    V(next) = 2, 1, 8, where 8 stands behind the edge of the rollout.
REWARD, VALUE, NEXT_VALUE = [1.0, 2.0, 3.0], [4.0, 2.0, 1.0], [2.0, 1.0, 8.0]


def advantages(
    next_value=NEXT_VALUE, terminated=(0, 0, 0), truncated=(0, 0, 0), bootstrap=False, trace_decay=0.5
):
    def column(values, dtype=float):
        return jnp.asarray(values, dtype)[:, None]

    result = generalised_advantages(
        column(REWARD),
        column(VALUE),
        column(next_value),
        column(terminated, bool),
        column(truncated, bool),
        discount=0.5,
        trace_decay=trace_decay,
        bootstrap_at_truncation=bootstrap,
    )
    assert result.shape == (3, 1)
    return result[:, 0].tolist()


def test_without_an_end_the_errors_add_up_backwards():
    # delta = 1 + 2/2 - 4, 2 + 1/2 - 2, 3 + 8/2 - 1 = -2, 1/2, 6
    # A2 = 6,  A1 = 1/2 + 6/4 = 2,  A0 = -2 + 2/4 = -3/2
    assert advantages() == [-1.5, 2.0, 6.0]


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_natural_end_is_worth_nothing_and_stops_the_trace(bootstrap):
    # V of the final observation, 100, must not count: delta1 = 2 + 0 - 2 = 0
    # A2 = 6,  A1 = 0,  A0 = -2 + 0/4 = -2
    assert advantages([2.0, 100.0, 8.0], terminated=(0, 1, 0), bootstrap=bootstrap) == [-2.0, 0.0, 6.0]


def test_an_end_at_a_limit_that_belongs_to_the_task_is_worth_nothing():
    assert advantages([2.0, 100.0, 8.0], truncated=(0, 1, 0), bootstrap=False) == [-2.0, 0.0, 6.0]


def test_an_end_at_a_limit_outside_the_task_is_worth_its_final_observation_and_stops_the_trace():
    # V of the final observation, 16, counts: delta1 = 2 + 16/2 - 2 = 8, and A1 = 8 without A2
    # A0 = -2 + 8/4 = 0
    assert advantages([2.0, 16.0, 8.0], truncated=(0, 1, 0), bootstrap=True) == [0.0, 8.0, 6.0]


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_natural_end_at_the_very_limit_is_a_natural_end(bootstrap):
    both = advantages([2.0, 100.0, 8.0], terminated=(0, 1, 0), truncated=(0, 1, 0), bootstrap=bootstrap)
    assert both == [-2.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("terminated", "truncated", "bootstrap", "last"),
    [
        (0, 0, False, 6.0),  # 3 + 8/2 - 1: the episode goes on in the next rollout
        (1, 0, True, 2.0),  # 3 - 1: nothing more to earn
        (0, 1, False, 2.0),  # 3 - 1: nothing more to earn
        (0, 1, True, 6.0),  # 3 + 8/2 - 1: the value of the final observation
    ],
)
def test_at_the_edge_of_the_rollout_only_what_goes_on_is_bootstrapped(terminated, truncated, bootstrap, last):
    got = advantages(terminated=(0, 0, terminated), truncated=(0, 0, truncated), bootstrap=bootstrap)
    # A1 = 1/2 + last/4,  A0 = -2 + A1/4
    assert got == [-2.0 + (0.5 + last / 4) / 4, 0.5 + last / 4, last]


def test_lambda_0_looks_one_step_ahead():
    assert advantages(trace_decay=0.0) == [-2.0, 0.5, 6.0]


def test_lambda_1_is_the_discounted_return_less_the_value():
    # 1 + 2/2 + 3/4 + 8/8 - 4 = -1/4,   2 + 3/2 + 8/4 - 2 = 7/2,   3 + 8/2 - 1 = 6
    assert advantages(trace_decay=1.0) == [-0.25, 3.5, 6.0]


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize(("discount", "trace_decay"), [(1.0, 0.95), (0.9, 0.0), (0.97, 1.0), (0.0, 0.5)])
def test_many_random_lanes_equal_a_loop_over_the_definition(precision, discount, trace_decay, bootstrap):
    steps, lanes = 17, 6
    rng = np.random.default_rng(0)
    reward, value, next_value = rng.normal(size=(3, steps, lanes))
    terminated, truncated = rng.uniform(size=(2, steps, lanes)) < 0.15
    assert (terminated & truncated).any(), "both flags at once should occur"

    expected = np.zeros((steps, lanes))
    for lane in range(lanes):
        for start in range(steps):
            weight = 1.0
            for t in range(start, steps):
                counts = not terminated[t, lane] and (bootstrap or not truncated[t, lane])
                delta = reward[t, lane] + discount * counts * next_value[t, lane] - value[t, lane]
                expected[start, lane] += weight * delta
                if terminated[t, lane] or truncated[t, lane]:
                    break
                weight *= discount * trace_decay
    got = generalised_advantages(
        *map(jnp.asarray, (reward, value, next_value, terminated, truncated)),
        discount=discount,
        trace_decay=trace_decay,
        bootstrap_at_truncation=bootstrap,
    )
    np.testing.assert_allclose(got, expected, rtol=precision.tolerance, atol=precision.tolerance)
