"""The networks: sequences, resets, and memory."""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.policies import layers
from qmind_jax.policies.layers import GRU
from qmind_jax.policies.networks import ActorCritic

STEPS, LANES, INPUTS, FEATURES = 9, 4, 3, 5
# Lane 0 never starts afresh, lane 1 at its first step, lane 2 twice in a row, lane 3 at its last step.
RESETS = jnp.zeros((STEPS, LANES), bool).at[jnp.array([0, 4, 5, 8]), jnp.array([1, 2, 2, 3])].set(True)


@pytest.fixture(scope="module")
def sequence():
    """Inputs, and a hidden state that is far from that at the start of an episode."""
    keys = jax.random.split(jax.random.key(0))
    return jax.random.normal(keys[0], (STEPS, LANES, INPUTS)), jax.random.normal(keys[1], (LANES, FEATURES))


@pytest.fixture(scope="module")
def gru(sequence):
    """A GRU as a function of hidden state, inputs and resets, and its weights."""
    inputs, hidden = sequence

    def columns_of(hidden, inputs, resets):
        return hidden.T, inputs.reshape(-1, INPUTS).T, resets.reshape(-1)

    @jax.jit
    def run(weights, hidden, inputs, resets):
        columns = GRU(FEATURES).apply(weights, *columns_of(hidden, inputs, resets))
        states = columns.T.reshape(*resets.shape, FEATURES)
        return states[-1], states

    weights = jax.jit(GRU(FEATURES).init)(jax.random.key(1), *columns_of(hidden, inputs, RESETS))
    return functools.partial(run, weights), weights["params"]


class Agent(NamedTuple):
    """An actor-critic as a function of hidden state, inputs and resets."""

    network: ActorCritic
    run: Callable
    hidden: jax.Array
    """A hidden state in the middle of an episode."""
    run_untrained: Callable


@pytest.fixture(scope="module", params=["mlp", "gru"])
def agent(request, sequence):
    """An agent with weights five times as large as at the start, so that they all matter."""
    network = ActorCritic(num_actions=4, kind=request.param, features=FEATURES)
    nothing = network.initial_hidden(LANES)
    weights = jax.jit(network.init)(jax.random.key(2), nothing, sequence[0], RESETS)
    large = jax.tree.map(lambda w: 5.0 * w, weights)
    apply = jax.jit(network.apply)
    return Agent(
        network,
        functools.partial(apply, large),
        nothing + (sequence[1] if request.param == "gru" else 0.0),
        functools.partial(apply, weights),
    )


def close(got, expected, tolerance=1e-5):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_the_gru_is_that_of_its_equations(gru, sequence):
    run, weights = gru
    inputs, hidden = sequence
    _, states = run(hidden, inputs, RESETS)

    def sigmoid(x):
        return 1.0 / (1.0 + np.exp(-x))

    kernel, bias = weights["Dense_0"]["kernel"], weights["Dense_0"]["bias"]
    state = np.asarray(hidden)
    for t in range(STEPS):
        state = np.where(RESETS[t][:, None], 0.0, state)
        of_inputs = np.split(np.asarray(inputs[t] @ kernel + bias), 3, axis=1)
        of_state = np.split(state @ weights["kernel"], 3, axis=1)
        update, forget = (sigmoid(of_inputs[i] + of_state[i]) for i in range(2))
        proposal = np.tanh(of_inputs[2] + forget * (of_state[2] + weights["bias"]))
        state = update * state + (1.0 - update) * proposal
        close(states[t], state)


def test_the_gru_with_resets_equals_its_pieces_run_separately(gru, sequence):
    run, _ = gru
    inputs, hidden = sequence
    last, states = run(hidden, inputs, RESETS)
    for lane in range(LANES):
        cuts = [0, *np.flatnonzero(RESETS[:, lane]).tolist(), STEPS]
        for piece, (begin, end) in enumerate(itertools.pairwise(cuts)):
            if begin == end:
                continue
            start = hidden[lane] if piece == 0 else jnp.zeros(FEATURES)
            no_reset = jnp.zeros((end - begin, 1), bool)
            after, alone = run(start[None], inputs[begin:end, lane : lane + 1], no_reset)
            close(states[begin:end, lane], alone[:, 0])
        close(last[lane], after[0])


def test_nothing_passes_a_reset_neither_forwards_nor_in_the_gradient(gru, sequence):
    run, _ = gru
    inputs, hidden = sequence
    reset = jnp.zeros((STEPS, LANES), bool).at[4].set(True)

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def gradient_of_the_tail(hidden, inputs, reset):
        return run(hidden, inputs, reset)[1][4:].sum()

    to_hidden, to_inputs = gradient_of_the_tail(hidden, inputs, reset)
    assert not to_hidden.any()
    assert not to_inputs[:4].any()
    assert np.abs(to_inputs[4]).min() > 0.0
    # Without the reset the past does matter.
    to_hidden, _ = gradient_of_the_tail(hidden, inputs, jnp.zeros_like(reset))
    assert np.abs(to_hidden).max() > 1e-3


def test_the_gradient_of_the_loop_is_that_of_automatic_differentiation(precision):
    shapes = ((5, 15), (5,), (5, LANES), (15, STEPS * LANES))
    keys = jax.random.split(jax.random.key(3), len(shapes) + 1)
    *args, weights = (
        jax.random.normal(key, shape) for key, shape in zip(keys, (*shapes, (5, STEPS * LANES)), strict=True)
    )

    def gradient(states_of):
        def loss(*args):
            return jnp.sum(weights * states_of(*args, RESETS.reshape(-1)) ** 2)

        return jax.jit(jax.grad(loss, argnums=tuple(range(len(shapes)))))(*args)

    tolerance = 1e-12 if jax.config.jax_enable_x64 else 1e-4
    expected = gradient(lambda *args: layers._recur(*args)[0])
    for ours, theirs in zip(gradient(layers.recur), expected, strict=True):
        close(ours, theirs, tolerance)
        assert np.abs(ours).max() > 1e-3


def test_a_sequence_equals_as_many_single_steps(agent, sequence):
    run, hidden, inputs = agent.run, agent.hidden, sequence[0]
    last, logits, values = run(hidden, inputs, RESETS)
    assert logits.shape == (STEPS, LANES, 4)
    assert values.shape == (STEPS, LANES)
    for t in range(STEPS):
        hidden, step_logits, step_values = run(hidden, inputs[t : t + 1], RESETS[t : t + 1])
        close(step_logits[0], logits[t])
        close(step_values[0], values[t])
    close(hidden, last)


def test_lanes_do_not_see_each_other(agent, sequence):
    run, hidden, inputs = agent.run, agent.hidden, sequence[0]
    _, logits, values = run(hidden, inputs, RESETS)
    for lane in range(LANES):
        part = slice(lane, lane + 1)
        _, alone, value = run(hidden[part], inputs[:, part], RESETS[:, part])
        close(alone[:, 0], logits[:, lane])
        close(value[:, 0], values[:, lane])


def test_only_the_recurrent_agent_remembers(agent, sequence):
    network, run, hidden, inputs = agent.network, agent.run, agent.hidden, sequence[0]
    no_reset = jnp.zeros_like(RESETS)
    _, logits, values = run(hidden, inputs, no_reset)
    _, other_logits, other_values = run(hidden, inputs.at[0].add(1.0), no_reset)
    difference = max(np.abs(logits - other_logits)[1:].max(), np.abs(values - other_values)[1:].max())
    if network.kind == "gru":
        assert difference > 1e-3
    else:
        assert difference == 0.0


def test_the_agent_starts_an_episode_with_an_empty_memory(agent, sequence):
    network, run, hidden, inputs = agent.network, agent.run, agent.hidden, sequence[0]
    first = jnp.ones((1, LANES), bool)
    after_reset = run(hidden, inputs[:1], first)
    from_nothing = run(network.initial_hidden(LANES), inputs[:1], ~first)
    jax.tree.map(close, after_reset, from_nothing)


def test_an_untrained_agent_chooses_almost_uniformly(agent, sequence):
    _, logits, values = agent.run_untrained(agent.hidden, sequence[0], RESETS)
    assert np.abs(jax.nn.softmax(logits) - 0.25).max() < 0.02
    assert 0.1 < np.std(values) < 2.0, "the values should neither vanish nor explode"
