"""Agents with hyper-parameters, costs and people of their own learn as if each were alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.evaluation import evaluate
from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit, handover_population
from qmind_jax.registry import make, override
from qmind_jax.training import HyperParameters, PPOConfig, train, train_population
from qmind_jax.training.hyper_parameters import NAMES, without_numbers

KEYS = jax.random.split(jax.random.key(1), 2)
TINY = PPOConfig(total_steps=224, lanes=8, rollout_steps=7, epochs=2, minibatches=2, features=8)
DIFFERENT = {
    "learning_rate": [1e-3, 2e-2],
    "discount": [0.9, 0.5],
    "trace_decay": [0.95, 0.3],
    "clip": [0.2, 0.01],
    "entropy_bonus": [0.02, 0.4],
    "value_weight": [0.5, 3.0],
    "reward_scale": [0.2, 2.0],
    "max_gradient_norm": [0.5, 0.02],
}


@pytest.fixture(scope="module")
def task():
    return make("TrustHandover-v0", n_steps=5, people=handover_population(jax.random.key(9), 3))


@pytest.fixture(scope="module")
def costs_and_people(task):
    """What two members differ in beside their hyper-parameters."""
    people = [handover_population(jax.random.key(seed), 3) for seed in range(2)]
    return {"ask_cost": [0.1, 2.0], "fail_cost": np.array([1.0, 10.0]), "people": people}


@pytest.fixture(scope="module")
def together(task, costs_and_people):
    reports = []
    result = train_population(
        KEYS,
        *task,
        TINY,
        hyper_parameters=DIFFERENT,
        overrides=costs_and_people,
        report=lambda *news: reports.append(news),
    )
    jax.effects_barrier()
    return result, reports


def assert_close(got, expected):
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-4), got, expected)


@pytest.mark.parametrize("member", [0, 1])
def test_a_member_learns_what_it_learns_alone(task, costs_and_people, together, member):
    env, params = task
    config = dataclasses.replace(TINY, **{name: values[member] for name, values in DIFFERENT.items()})
    mine = override(env, params, **{name: values[member] for name, values in costs_and_people.items()})
    alone = train(KEYS, env, mine, config)
    result, _ = together
    assert_close(jax.tree.map(lambda x: x[member], result.policy), alone.policy)
    assert_close(jax.tree.map(lambda x: x[member], result.metrics), alone.metrics)
    assert result.metrics["return"].shape == (2, 2, TINY.num_updates)
    assert_close(
        jax.tree.map(lambda x: x[member, 0], result.runner.hyper_parameters), HyperParameters.of(config)
    )


def test_one_key_makes_one_agent_per_member(task, together):
    one = train_population(KEYS[1], *task, TINY, hyper_parameters={"clip": [0.2, 0.01]})
    assert one.metrics["return"].shape == (2, TINY.num_updates)
    alone = train(KEYS[1], *task, dataclasses.replace(TINY, clip=0.01))
    assert_close(jax.tree.map(lambda x: x[1], one.policy), alone.policy)


def test_there_is_one_report_per_update_of_all_members(together):
    result, reports = together
    means = np.mean(result.metrics["return"], axis=(0, 1))
    assert sorted(int(update) for update, _ in reports) == list(range(1, TINY.num_updates + 1))
    for update, mean in reports:
        np.testing.assert_allclose(mean, means[int(update) - 1], rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_hyper_parameter_matters(task, name):
    # Three members of whom the last two are equal: it is the value that matters, not the place.
    usual, other = DIFFERENT[name]
    result = train_population(KEYS[0], *task, TINY, hyper_parameters={name: [usual, other, other]})
    for leaf in jax.tree.leaves(result.policy.variables):
        np.testing.assert_array_equal(leaf[1], leaf[2])
    weights = jax.tree.leaves(result.policy.variables)
    assert any(np.abs(leaf[0] - leaf[1]).max() > 1e-5 for leaf in weights)


def test_other_numbers_costs_and_people_are_the_same_program(task, compilations):
    jax.clear_caches()
    losses, counts = [], []
    for seed, rate in enumerate((1e-3, 2e-3, 3e-3)):
        people = [handover_population(jax.random.key(2 * seed + i), 3) for i in range(2)]
        result = train_population(
            KEYS[0],
            *task,
            TINY,
            hyper_parameters={"learning_rate": [rate, 10 * rate]},
            overrides={"people": people, "ask_cost": [rate, 0.5]},
        )
        losses.append(np.asarray(result.metrics["value_loss"]))
        counts.append(len(compilations))
    assert counts[0] > 0
    assert counts[2] == counts[1] == counts[0]
    assert len(np.unique(np.stack(losses)[..., -1])) == 6, "every member should have learnt something else"


def test_plain_training_with_other_numbers_is_the_same_program(task, compilations):
    jax.clear_caches()
    losses, counts = [], []
    for i in range(2):
        config = dataclasses.replace(TINY, **{name: values[i] for name, values in DIFFERENT.items()})
        losses.append(train(KEYS, *task, config).metrics["value_loss"])
        counts.append(len(compilations))
    assert counts[1] == counts[0] > 0
    assert not np.allclose(*losses)


def test_numbers_are_what_configs_that_share_a_program_may_differ_in():
    assert without_numbers(PPOConfig(learning_rate=0.1, clip=0.3)) == PPOConfig()
    assert without_numbers(PPOConfig(features=8)) == PPOConfig(features=8)
    numbers = HyperParameters.of(PPOConfig(learning_rate=0.1))
    assert numbers.learning_rate == np.float32(0.1)
    assert {leaf.dtype for leaf in jax.tree.leaves(numbers)} == {jnp.dtype("float32")}


@pytest.mark.parametrize(
    ("hyper_parameters", "overrides", "message"),
    [
        ({}, {}, "hyper_parameters or overrides must name something that differs between members"),
        ({"learning_rat": [0.1]}, {}, "unknown hyper-parameter 'learning_rat'. Did you mean 'learning_rate'"),
        ({"lanes": [8, 16]}, {}, "unknown hyper-parameter 'lanes'"),
        ({"clip": [0.1, -0.2]}, {}, r"hyper_parameters\['clip'\]\[1\]: clip must be positive, got -0.2"),
        (
            {"clip": 0.1},
            {},
            r"hyper_parameters\['clip'\] must be a sequence of one value per member, got 0.1",
        ),
        ({"clip": []}, {}, r"hyper_parameters\['clip'\] must have one value per member, at least one, got 0"),
        (
            {"clip": [0.1, 0.2]},
            {"ask_cost": [0.1, 0.2, 0.3]},
            r"overrides\['ask_cost'\] must .* got 3; hyper_parameters\['clip'\] has 2",
        ),
        ({}, {"ask_price": [0.1]}, "overrides of member 0: unknown parameter 'ask_price'"),
        ({}, {"slow_factor": [0.5, 1.5]}, "overrides of member 1: .*slow_factor.*1.5"),
        (
            {},
            {"people": [TrustQubit(), MarkovTrust()]},
            r"overrides\['people'\]\[1\] must be of the kind and the shapes of overrides\['people'\]\[0\]",
        ),
        (
            {},
            {"people": [[BetaTrust()], [BetaTrust(), BetaTrust()]]},
            r"overrides\['people'\]\[1\] must be of the kind and the shapes of overrides\['people'\]\[0\]",
        ),
    ],
)
def test_populations_that_make_no_sense_are_refused(task, hyper_parameters, overrides, message):
    with pytest.raises(ValueError, match=message):
        train_population(KEYS, *task, TINY, hyper_parameters=hyper_parameters, overrides=overrides)


def test_the_network_fits_people_with_other_questions_than_the_base(random_answering):
    env, params = make("Clarification-v0")
    people = [random_answering(seed, people=2, questions=2, hypotheses=2) for seed in range(2)]
    result = train_population(KEYS[0], env, params, TINY, overrides={"people": people})
    assert result.policy.network.num_actions == 4
    first = jax.tree.map(lambda leaf: leaf[0], result.policy)
    judged = evaluate(first, TINY.wrap(env), override(env, params, people=people[0]), KEYS[1], 20)
    assert np.all(np.isfinite(judged.per_episode))
