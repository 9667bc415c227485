"""TrustHandover against quantum-mind's TrustHandoverEnv, step by step on the same uniform numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peer import ScriptedUniforms, play_trust_handover
from quantum_mind.envs import TrustHandoverEnv
from quantum_mind.families.dynamics import OpenSystemBelief

from qmind_jax.envs.trust_handover import TrustHandover, TrustHandoverNoise, TrustHandoverParams
from qmind_jax.people import TrustQubit, handover_population
from qmind_jax.people.population import as_population
from qmind_jax.quantum import rotate
from qmind_jax.registry import override

BATCHES = 16
EPISODES = 125
HORIZON = 24
COSTS = {
    "n_steps": 20,
    "fail_cost": 10.0,
    "slow_cost": 1.0,
    "ask_cost": 0.5,
    "wait_cost": 0.3,
    "slow_factor": 0.5,
}


def play(params, person, outcomes, actions):
    """Our episodes on a script: the first states, then every step of every episode."""
    env = TrustHandover()

    def episode(person, outcomes, actions):
        first = env.initial(TrustHandoverNoise(outcome=outcomes[0], person=person), params)

        def step(state, script):
            uniform, action = script
            # Another number for the next episode than at the reset: a running one must not use it.
            noise = TrustHandoverNoise(outcome=uniform, person=1.0 - person)
            after = env.transition(noise, state, action, params)
            return after.state, {
                "person": after.state.person,
                "observation": env.observation(after.state, params),
                "reward": after.reward,
                "terminated": after.terminated,
                "truncated": env.is_truncated(after.state, params),
                "p_trust": after.info["p_trust"],
                "rho01": 0.5 * after.state.x,
            }

        return first, env.observation(first, params), jax.lax.scan(step, first, (outcomes, actions))[1]

    return jax.vmap(episode)(person, outcomes, actions)


compiled_play = jax.jit(play)


def compare(people, costs, tolerance, *, seed, episodes=EPISODES, play=compiled_play):
    """Play the same episodes with the peer and with ours; raise AssertionError where they differ.

    Returns:
        The largest difference between the two probabilities of trust.
    """
    theirs = play_trust_handover(people, costs, seed=seed, episodes=episodes, horizon=HORIZON)
    params = override(TrustHandover(), TrustHandoverParams(people=people), **costs)
    script = (theirs[name] for name in ("person_uniform", "outcome_uniform", "action"))
    first, first_observation, steps = play(params, *script)
    np.testing.assert_array_equal(first.person, theirs["person"], "person")
    np.testing.assert_array_equal(first_observation, theirs["first_observation"], "first observation")
    for name, ours in (("first_p_trust", 0.5 * (1.0 + first.z)), ("first_rho01", 0.5 * first.x)):
        np.testing.assert_allclose(ours, theirs[name], 0, tolerance, err_msg=name)
    alive = theirs["alive"]
    ours = {name: np.asarray(value) for name, value in steps.items()}
    for name in ("observation", "terminated", "truncated"):
        np.testing.assert_array_equal(ours[name][alive], theirs[name][alive], name)
    person = np.broadcast_to(theirs["person"][:, None], alive.shape)
    np.testing.assert_array_equal(ours["person"][alive], person[alive], "person changed within an episode")
    for name in ("reward", "p_trust", "rho01"):
        np.testing.assert_allclose(ours[name][alive], theirs[name][alive], 0, tolerance, err_msg=name)
    return np.max(np.abs(ours["p_trust"] - theirs["p_trust"])[alive])


def random_costs(seed):
    rng = np.random.default_rng(seed)
    names = ("fail_cost", "slow_cost", "ask_cost", "wait_cost")
    # Quarters are the same number in every precision, so rewards may be compared tightly.
    costs = {name: float(rng.integers(-4, 40)) / 4 for name in names}
    n_steps = int(rng.integers(1, HORIZON + 1))
    return costs | {"n_steps": n_steps, "slow_factor": float(rng.choice([0.0, 0.25, 0.5, 1.0]))}


def test_the_published_person_behaves_as_the_peer(precision):
    people = as_population([TrustQubit()] * 8)
    compare(people, COSTS, precision.tolerance, seed=0)


def test_the_published_population_behaves_as_the_peer(precision):
    people = handover_population(jax.random.key(1), 8)
    compare(people, COSTS, precision.tolerance, seed=1)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_people_and_costs_behave_as_the_peer(batch, random_qubits, precision):
    compare(random_qubits(batch), random_costs(batch), precision.tolerance, seed=batch)


def test_the_scenarios_hold_two_thousand_episodes_and_every_event(random_qubits):
    assert EPISODES * (2 + BATCHES) >= 2000
    log = play_trust_handover(random_qubits(0), COSTS, seed=0, episodes=EPISODES, horizon=HORIZON)
    handed_over = log["observation"][log["alive"] & (log["action"] < 2)][:, 0]
    asked = log["observation"][log["alive"] & (log["action"] == 2)][:, 1]
    for values in (handed_over, asked):
        assert min(np.mean(values == 1), np.mean(values == -1)) > 0.1
    assert len({random_costs(batch)["n_steps"] for batch in range(BATCHES)}) > 8


@pytest.mark.parametrize("action", [0, 1, 2])
def test_a_uniform_equal_to_its_threshold_is_decided_as_by_the_peer(action):
    """Trust is exactly 0.5 here: a hand-over works at its threshold, an answer at its threshold is no."""
    with jax.enable_x64(True):
        env, params = TrustHandover(), TrustHandoverParams(people=as_population(TrustQubit()))
        zero = np.float32(0.0)
        state = env.initial(TrustHandoverNoise(outcome=zero, person=zero), params).replace(z=jnp.float64(0.0))
        threshold = np.float32([0.5, 0.25, 0.5][action])
        for uniform in (threshold, np.nextafter(threshold, np.float32(0))):
            peer_env = TrustHandoverEnv(OpenSystemBelief())
            peer_env.reset()
            peer_env.rho = np.array([[0.5, 0.1], [0.1, 0.5]])
            peer_env.np_random = ScriptedUniforms([uniform])
            observation = peer_env.step(action)[0]
            after = env.transition(TrustHandoverNoise(outcome=uniform, person=zero), state, action, params)
            np.testing.assert_array_equal(env.observation(after.state, params)[:2], observation[:2])
            at_threshold = uniform == threshold
            assert observation[1 if action == 2 else 0] == (1 if at_threshold != (action == 2) else -1)


# --- the comparison must notice a wrong kernel ------------------------------------------------------


def _after_outcome(z_x_of):
    """TrustQubit.after_outcome from ``z_x_of(people, trust, angle, gamma)`` of one person."""

    def after_outcome(self, trust, person, success):
        angle = jnp.where(success, -self.a_pos[person], self.a_neg[person])
        return z_x_of(trust, angle, self.gamma[person])

    return lambda: (TrustQubit, "after_outcome", after_outcome)


def _dephase_then_rotate(trust, angle, gamma):
    z, x = trust
    return rotate(z, x * (1.0 - gamma), angle)


def _rotate_the_other_way(trust, angle, gamma):
    z, x = rotate(*trust, -angle)
    return z, x * (1.0 - gamma)


def _half_the_angle(trust, angle, gamma):
    z, x = rotate(*trust, 0.5 * angle)
    return z, x * (1.0 - gamma)


def _no_dephasing(trust, angle, gamma):
    return rotate(*trust, angle)


def _keep_coherence(self, trust, person, yes):
    return jnp.where(yes, 1.0, -1.0) + 0.0 * trust[0], trust[1]


def _no_collapse(self, trust, person, yes):
    return trust


def _wait_without_dephasing(self, trust, person):
    return trust


def _wait_with_decay_of_trust(self, trust, person):
    factor = 1.0 - self.gamma[person]
    return trust[0] * factor, trust[1] * factor


def _faulty_transition(change_noise=None, change=None):
    original = TrustHandover.transition

    def transition(self, noise, state, action, params):
        if change_noise is not None:
            noise = change_noise(noise, state, action, params)
        after = original(self, noise, state, action, params)
        return after if change is None else change(after, state, action, params)

    return TrustHandover, "transition", transition


def _swap_answers(noise, state, action, params):
    trusts = 0.5 * (1.0 + state.z)
    swapped = jnp.where(noise.outcome >= trusts, -1.0, 2.0)
    return noise.replace(outcome=jnp.where(action == 2, swapped, noise.outcome))


def _slow_factor_on_success(noise, state, action, params):
    p_success = 0.5 * (1.0 + state.z) * params.slow_factor
    slow = jnp.where(noise.outcome >= 1.0 - p_success, 2.0, -1.0)
    return noise.replace(outcome=jnp.where(action == 1, slow, noise.outcome))


def _no_slow_cost(after, state, action, params):
    return after.replace(reward=after.reward + jnp.where(action == 1, params.slow_cost, 0.0))


def _answer_into_outcome(after, state, action, params):
    outcome = jnp.where(action == 2, after.state.answer, after.state.outcome)
    return after.replace(state=after.state.replace(outcome=outcome))


def _one_step_too_long(self, state, params):
    return state.time > params.n_steps


FAULTS = {
    "dephasing before rotation": _after_outcome(_dephase_then_rotate),
    "rotation the other way": _after_outcome(_rotate_the_other_way),
    "half the angle": _after_outcome(_half_the_angle),
    "no dephasing after an outcome": _after_outcome(_no_dephasing),
    "no dephasing while waiting": lambda: (TrustQubit, "after_wait", _wait_without_dephasing),
    "trust decays while waiting": lambda: (TrustQubit, "after_wait", _wait_with_decay_of_trust),
    "asking keeps coherence": lambda: (TrustQubit, "after_answer", _keep_coherence),
    "asking does not collapse": lambda: (TrustQubit, "after_answer", _no_collapse),
    "answer comparison swapped": functools.partial(_faulty_transition, _swap_answers),
    "slow factor on success": functools.partial(_faulty_transition, _slow_factor_on_success),
    "slow cost forgotten": functools.partial(_faulty_transition, None, _no_slow_cost),
    "answer written to the outcome": functools.partial(_faulty_transition, None, _answer_into_outcome),
    "one step too long": lambda: (TrustHandover, "is_truncated", _one_step_too_long),
}


def fresh_play():
    """A version of :func:`play` that JAX has not compiled yet, so that it sees a patched kernel."""
    return jax.jit(lambda *script: play(*script))


def test_without_a_fault_the_comparison_passes(random_qubits):
    assert compare(random_qubits(50), COSTS, 1e-5, seed=50, episodes=40, play=fresh_play()) < 1e-5


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_notices_a_fault(fault, random_qubits, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault]())
    with pytest.raises(AssertionError):
        compare(random_qubits(50), COSTS, 1e-5, seed=50, episodes=40, play=fresh_play())
