"""New people of the same number need no new program, whatever family they are of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs import Clarification, TrustHandover
from qmind_jax.people import (
    TrustQubit,
    default_domain,
    mix,
    preset_distribution,
    preset_people,
    sample_people,
    trust_population,
    vary_states,
)
from qmind_jax.registry import make, override
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.ppo import advance, start

REDRAWS, SIZE, LANES = 100, 6, 8
MARKOV = "trust_real_world_markov"


def mixed(key):
    """The same number of people, but of families that change from draw to draw."""
    families = ("beta", "markov", "qubit")
    chosen = np.asarray(jax.random.randint(key, (SIZE,), 0, 3))
    return mix([preset_people(f"trust_real_world_{families[i]}", key, 1) for i in chosen])


SOURCES = {
    "preset beta": lambda key: preset_people("trust_real_world_beta", key, SIZE),
    "preset markov": lambda key: preset_people(MARKOV, key, SIZE),
    "preset qubit": lambda key: preset_people("trust_real_world_qubit", key, SIZE),
    "fitted distribution": lambda key: sample_people(preset_distribution("trust_real_world_beta"), SIZE, key),
    "drawn from people": lambda key: sample_people(
        preset_people("trust_real_world_beta", key, 50), SIZE, key
    ),
    "initial trust alone": lambda key: trust_population(key, SIZE),
    "mixed": mixed,
    "answering": lambda key: vary_states(key, default_domain(), SIZE),
}


def counting(kind):
    """An environment of a kind, and a list that grows whenever a step is traced."""
    traces = []

    class Counting(kind):
        def transition(self, noise, state, action, params):
            traces.append(params.people)
            return super().transition(noise, state, action, params)

    return Counting(), traces


@pytest.mark.parametrize("source", SOURCES)
def test_a_hundred_redraws_are_one_program(source):
    draw = SOURCES[source]
    env, traces = counting(Clarification if source == "answering" else TrustHandover)
    key = jax.random.key(0)
    params = override(env, env.default_params, people=draw(key))
    _, state = env.reset_batch(key, params, LANES)
    rewards = []
    for i in range(REDRAWS + 1):
        new = jax.random.fold_in(key, i)
        params = override(env, params, people=draw(new))
        _, state, reward, *_ = env.step_batch(new, state, jnp.zeros(LANES, int), params)
        if i == 0:
            expected = len(traces)
        rewards.append(np.asarray(reward))
    assert expected > 0
    assert len(traces) == expected, "a redraw compiled again"
    assert len(np.unique(np.stack(rewards))) > 1

    # People of another number are another program: the count counts.
    more = override(env, params, people=draw(key)[: SIZE - 1])
    env.step_batch(key, state, jnp.zeros(LANES, int), more)
    assert len(traces) > expected


def test_training_goes_on_with_new_people_without_compiling_again(compilations):
    env, params = make("TrustHandover-v0")
    config = PPOConfig(
        lanes=4, rollout_steps=4, minibatches=1, epochs=1, features=8, total_steps=16 * REDRAWS
    )
    key = jax.random.key(0)
    params = override(env, params, people=mixed(key))
    runner = start(jax.random.split(key, 1), env, params, config)
    compiled = []
    for i in range(REDRAWS):
        people = mixed(jax.random.fold_in(key, i))
        new = override(env, params, people=people)
        before = len(compilations)
        runner, metrics = advance(runner, env, new, config, num_updates=1)
        compiled.append(len(compilations) - before)
    assert compiled[0] > 0
    assert not any(compiled[1:])
    assert all(np.all(np.isfinite(leaf)) for name, leaf in metrics.items() if name != "return")


def test_people_of_another_family_are_another_program():
    env, traces = counting(TrustHandover)
    key = jax.random.key(0)
    for people in (mixed(key), preset_people("trust_real_world_beta", key, SIZE), TrustQubit()):
        before = len(traces)
        params = override(env, env.default_params, people=people)
        _, state = env.reset_batch(key, params, LANES)
        env.step_batch(key, state, jnp.zeros(LANES, int), params)
        assert len(traces) > before
