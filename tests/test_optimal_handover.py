"""Exact optima of TrustHandover: published values, error bounds, Monte Carlo, risk, gradients."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs import TrustHandover, TrustHandoverParams
from qmind_jax.evaluation import evaluate
from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit, handover_population, mix
from qmind_jax.people.population import as_population
from qmind_jax.policies import TrustRule
from qmind_jax.policies.optimal import (
    COARSE,
    MEDIUM,
    Resolution,
    event_tree,
    handover_cvar_optimum,
    handover_optimum,
    handover_policy,
    handover_returns,
)
from qmind_jax.policies.optimal.handover import costs_of
from qmind_jax.policies.optimal.trust_mesh import DiscMesh, IntervalMesh

HUMAN = {"phi0": 1.6, "a_pos": 0.1777, "a_neg": 0.1892, "gamma": 0.1743}
CHEAP = {"fail_cost": 2.0, "slow_cost": 0.2, "ask_cost": 0.2}
FAMILIES = ("qubit", "markov", "beta")
HORIZONS = [
    *(
        -0.3,
        -0.168980,
        -0.468980,
        -0.330732,
        -0.630732,
        -0.558942,
        -0.858942,
        -0.843534,
        -1.143534,
        -1.175956,
    ),
    *(-1.475956, -1.548955, -1.848955, -1.956378, -2.256378, -2.393005, -2.693005, -2.854407, -3.154407),
    -3.336826,
]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def params_for(people, **changes):
    return TrustHandoverParams(people=as_population(people)).replace(**changes)


def random_people(family, n, seed=0):
    """People as in the published study; Beta people are of that kind."""
    if family != "beta":
        return handover_population(jax.random.key(seed), n, family)
    rng = np.random.default_rng(seed)
    low, high = [0.0, 0.3, 0.05, 0.05], [1.0, 3.0, 0.5, 0.5]
    return BetaTrust(*rng.uniform(low, high, (n, 4)).T)


# --- published values --------------------------------------------------------------------------------


def test_the_published_optimum_and_its_distribution():
    person = TrustQubit()
    params = params_for(person)
    optimum = handover_optimum(person, params)
    np.testing.assert_allclose(optimum.value, [-3.3368263996], atol=1e-10)
    assert optimum.error[0] < 1e-12
    played = handover_returns(person, params, handover_policy(person, params).action)
    assert played.mean == pytest.approx(-3.3368263996, abs=1e-10)
    np.testing.assert_allclose(played.returns, [-6.2, -5.1, -4.0, -2.9, -1.8, -0.7, 0.4, 1.5, 2.6, 3.7, 5.0])
    chances = [
        0.51460,
        0.07361,
        0.06245,
        0.05298,
        0.04494,
        0.03813,
        0.03235,
        0.02744,
        0.02328,
        0.01975,
        0.11048,
    ]
    np.testing.assert_allclose(played.probabilities, chances, atol=5.1e-6)
    np.testing.assert_allclose([played.failures, *played.actions[1:]], [0, 0, 3.472, 13.945], atol=5.1e-4)
    levels = [0.5, 0.6, 0.75, 0.9, 1.0]
    np.testing.assert_allclose(
        [played.cvar(level) for level in levels], [-6.2, -6.022, -5.402, -4.263, -3.337], atol=5.1e-4
    )


@pytest.mark.parametrize("n_steps", [1, 2, 7, 14])
def test_the_value_depends_on_the_horizon_as_published(n_steps):
    value = handover_optimum(TrustQubit(), params_for(TrustQubit(), n_steps=n_steps)).value
    np.testing.assert_allclose(value, [HORIZONS[n_steps - 1]], atol=5.1e-7)


@pytest.mark.slow
def test_the_values_of_all_horizons_are_the_published_ones():
    params = params_for(TrustQubit())
    values = [handover_optimum(TrustQubit(), params.replace(n_steps=n)).value[0] for n in range(1, 21)]
    np.testing.assert_allclose(values, HORIZONS, atol=5.1e-7)


VARIANTS = [
    ({}, {"fail_cost": 2.0}, -2.1880, [1.63, 5.32, 6.21, 1.26]),
    ({}, {"fail_cost": 1.0}, 1.4657, [7.15, 1.72, 0.50, 1.00]),
    ({}, CHEAP, 2.8934, [2.30, 7.26, 0, 7.50]),
    (
        {},
        {"fail_cost": 3.0, "slow_cost": 0.3, "ask_cost": 0.3, "wait_cost": 0.1},
        1.0378,
        [0.34, 3.93, 10.86, 1.84],
    ),
    (HUMAN, {}, 1.0388, [0.08, 2.77, 10.73, 0]),
    (HUMAN, {"fail_cost": 3.0}, 1.7720, [0.17, 2.33, 10.81, 0]),
]


@pytest.mark.parametrize(("person", "costs", "value", "counts"), VARIANTS)
def test_published_variants(person, costs, value, counts):
    person = TrustQubit(**person)
    params = params_for(person, **costs)
    optimum = handover_optimum(person, params)
    np.testing.assert_allclose(optimum.value, [value], atol=1e-4)
    assert abs(optimum.value[0] - value) < optimum.error[0] + 5.1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("person", "costs", "value", "counts"), VARIANTS)
def test_playing_the_policy_of_published_variants_exactly(person, costs, value, counts):
    person = TrustQubit(**person)
    params = params_for(person, **costs)
    played = handover_returns(person, params, handover_policy(person, params).action)
    assert played.mean == pytest.approx(value, abs=5.1e-5)
    optimum = handover_optimum(person, params)
    assert played.mean <= optimum.value[0] + optimum.error[0]
    np.testing.assert_allclose([played.failures, *played.actions[[2, 3, 1]]], counts, atol=0.02)


def test_other_policies_earn_what_is_published():
    params = params_for(TrustQubit())
    rule = TrustRule.for_params(params)

    def published_rule(trust, time):
        costs = rule.replace(people=params.people)
        return costs.act(costs.init(None).replace(trust=trust), jnp.zeros(3), jax.random.key(0))[0]

    for plan, value in [
        (lambda trust, time: 3, -6.0),
        (lambda trust, time: 2, -10.0),
        (published_rule, -29.1553609107),
    ]:
        assert handover_returns(TrustQubit(), params, plan).mean == pytest.approx(value, abs=1e-9)


# --- two solvers, error bounds ------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_short_episodes_agree_with_the_tree_of_all_events(family):
    people = random_people(family, 4)
    params = params_for(people, n_steps=5, **CHEAP)
    costs = costs_of(params, people)
    levels = event_tree.grow(people, costs.slow_factor, 5)
    expected = [event_tree.plan_for(levels, costs, i)[0] for i in range(4)]
    optimum = handover_optimum(people, params, resolutions=(COARSE,))
    assert np.all(np.abs(optimum.value - np.array(expected)) <= optimum.error + 1e-12)
    np.testing.assert_allclose(optimum.value, expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["qubit", "markov"])
@pytest.mark.parametrize("costs", [{}, CHEAP, {"fail_cost": 1.0}])
def test_the_error_bounds_the_error(family, costs):
    people = random_people(family, 32, seed=3)
    coarse = handover_optimum(people, params_for(people, **costs), resolutions=(COARSE,))
    fine = handover_optimum(
        people, params_for(people, **costs), resolutions=(Resolution(96, 384, 32768, 9, 4, 1),)
    )
    assert np.all(np.abs(coarse.value - fine.value) <= coarse.error + fine.error)
    assert np.all(fine.error <= coarse.error + 1e-12)


def test_who_is_not_solved_well_enough_is_solved_again():
    people = random_people("qubit", 4, seed=3)
    params = params_for(people, **CHEAP)
    coarse = handover_optimum(people, params, resolutions=(COARSE,))
    tolerance = float(np.sort(coarse.error)[-2])
    both = handover_optimum(people, params, tolerance=tolerance, resolutions=(COARSE, Resolution(32, 128)))
    again = coarse.error > tolerance
    assert again.sum() == 1
    np.testing.assert_array_equal(both.value[~again], coarse.value[~again])
    assert np.all(both.error[again] < coarse.error[again])


@pytest.mark.parametrize("mesh", [DiscMesh(5, 12), IntervalMesh(7)])
def test_meshes_reproduce_linear_functions(mesh):
    rng = np.random.default_rng(0)
    radius, angle = np.sqrt(rng.uniform(size=200)), rng.uniform(0, 2 * np.pi, 200)
    z, x = radius * np.cos(angle), radius * np.sin(angle) * isinstance(mesh, DiscMesh)
    # The centre, where a sector is undefined, and the poles.
    z, x = np.append(z, [0.0, 1.0, -1.0]), np.append(x, [0.0, 0.0, 0.0])
    nodes = mesh.nodes(jnp.float64)
    blend = mesh.locate(jnp.asarray(z), jnp.asarray(x))
    np.testing.assert_allclose(blend.weight.sum(axis=0), 1.0)
    values = 2.0 - 3.0 * nodes[0] + 5.0 * nodes[1]
    np.testing.assert_allclose(blend.of(values), 2.0 - 3.0 * z + 5.0 * x, atol=1e-12)
    np.testing.assert_allclose(mesh.unevenness(values), 0.0, atol=1e-12)


@pytest.mark.parametrize("mesh", [DiscMesh(40, 120), IntervalMesh(200)])
def test_the_unevenness_bounds_what_interpolation_is_wrong_by(mesh):
    def bent(z, x):
        return np.maximum(np.maximum(2 * z - x, 0.3 + x**2), 0.5 - 3 * z * x)

    rng = np.random.default_rng(0)
    radius, angle = np.sqrt(rng.uniform(size=20_000)), rng.uniform(0, 2 * np.pi, 20_000)
    z, x = radius * np.cos(angle), radius * np.sin(angle) * isinstance(mesh, DiscMesh)
    values = jnp.asarray(bent(*mesh.nodes(jnp.float64)))
    blend = mesh.locate(jnp.asarray(z), jnp.asarray(x))
    error, bound = np.abs(blend.of(values) - bent(z, x)), blend.of(mesh.unevenness(values))
    # It is an estimate: corners of three kinks may exceed it, almost nothing else does.
    assert np.mean(error > bound + 1e-12) < 0.02


# --- the policy in the environment --------------------------------------------------------------------


def standard_deviations_from_monte_carlo(people, params, resolution, episodes):
    """How far episodes in the environment are from the value, for every person."""
    optimum = handover_optimum(people, params, resolutions=(resolution,))
    policies = handover_policy(people, params, resolution=resolution)

    def play(policy, person, key):
        alone = params.replace(people=jax.tree.map(lambda leaf: leaf[None], person))
        returns = evaluate(policy, TrustHandover(), alone, key, episodes)
        return returns.mean, returns.standard_error

    keys = jax.random.split(jax.random.key(1), len(people))
    mean, error = jax.lax.map(lambda one: play(*one), (policies, people, keys), batch_size=8)
    return np.asarray((mean - optimum.value) / jnp.maximum(error, 1e-9))


@pytest.mark.parametrize("family", FAMILIES)
def test_playing_the_policy_earns_its_value(family):
    people = random_people(family, 6)
    deviations = standard_deviations_from_monte_carlo(people, params_for(people, **CHEAP), COARSE, 1000)
    assert np.abs(deviations).max() < 3.5


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_playing_the_policies_of_many_people_earns_their_values(family):
    people = random_people(family, 200)
    deviations = standard_deviations_from_monte_carlo(people, params_for(people, **CHEAP), COARSE, 4000)
    # Of 200 deviations some 0.5 lie beyond 3; more than 4 would have a chance of 1 in 5,000.
    assert np.sum(np.abs(deviations) > 3.0) <= 4
    assert np.abs(deviations).max() < 5.0
    assert abs(deviations.mean()) < 4 / np.sqrt(200)


# --- risk ---------------------------------------------------------------------------------------------


def test_the_most_careful_policy_waits():
    person = TrustQubit()
    params = params_for(person)
    played = handover_returns(person, params, handover_policy(person, params, resolution=COARSE).action)
    for level in (0.05, 0.3, 0.6):
        np.testing.assert_allclose(handover_cvar_optimum(person, params, level).value, [-6.0], atol=1e-9)
    for level in (0.62, 0.75, 0.9):
        assert handover_cvar_optimum(person, params, level).value[0] >= max(played.cvar(level), -6.0) - 1e-9
    np.testing.assert_allclose(handover_cvar_optimum(person, params, 1.0).value, [-3.3368263996], atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_at_level_one_risk_is_the_mean(family):
    people = random_people(family, 2)
    costs = CHEAP | {"n_steps": 6}
    mean = handover_optimum(people, params_for(people, **costs)).value
    small = Resolution(12, 48, 128, 4, 2, 1)
    exact = handover_cvar_optimum(people, params_for(people, **costs), 1.0, resolution=small)
    np.testing.assert_allclose(exact.value, mean, atol=5e-3)
    interpolated = handover_cvar_optimum(
        people, params_for(people, **costs | {"wait_cost": 0.2 * np.sqrt(2)}), 1.0, resolution=small
    )
    unusual = handover_optimum(people, params_for(people, **costs | {"wait_cost": 0.2 * np.sqrt(2)})).value
    np.testing.assert_allclose(interpolated.value, unusual, atol=5e-3)


# --- precision, speed, gradients ------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_agree_with_finite_differences(family):
    people = random_people(family, 2, seed=5)
    params = params_for(people, n_steps=6, **CHEAP)

    def value(shift):
        moved = jax.tree.map(lambda leaf: leaf * (1 + shift), people)
        return handover_optimum(moved, params, resolutions=(COARSE,)).value

    slope = jax.jacobian(value)(0.0)
    np.testing.assert_allclose(slope, (value(1e-6) - value(-1e-6)) / 2e-6, atol=1e-5)
    assert np.any(np.abs(slope) > 1e-2)


@pytest.mark.parametrize("family", FAMILIES)
def test_single_precision_is_within_its_error(family):
    people = random_people(family, 4)
    value = handover_optimum(people, params_for(people), resolutions=(COARSE,)).value
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), people)
    got = handover_optimum(single, params_for(single), resolutions=(COARSE,))
    assert got.value.dtype == jnp.float32
    assert np.all(np.abs(got.value - value) <= got.error)
    assert np.all(got.error < 1e-3)


def test_both_precisions_work_in_one_process():
    # A horizon that no other test has, so that neither precision finds the layout of the other's making.
    for enabled in (False, True, False):
        with jax.enable_x64(enabled):
            people = as_population(TrustQubit())
            params = TrustHandoverParams(people=people, n_steps=6)
            value = handover_optimum(people, params, resolutions=(COARSE,)).value
        np.testing.assert_allclose(value, -0.558942, atol=2e-6)


def test_also_people_who_hardly_learn_to_trust_are_solved_to_the_tolerance():
    # The largest errors among 4,096 Markov people, where eight hand-overs in a row were too few to follow.
    people = MarkovTrust(
        p0=jnp.array([0.8769116, 0.862231, 0.8055989]),
        up=jnp.array([0.10085936, 0.11594329, 0.10088382]),
        down=jnp.array([0.21868287, 0.50156683, 0.52663517]),
    )
    optimum = handover_optimum(people, params_for(people))
    assert np.all(optimum.error < 1e-4)
    # With fourteen, in double precision.
    np.testing.assert_allclose(optimum.value, [15.45971649, 15.09710567, 13.69829279], atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_thousands_of_people_take_less_than_a_minute(family):
    people = random_people(family, 4096)
    # Processor time: what else runs on the machine does not count.
    start = time.process_time()
    optimum = jax.block_until_ready(handover_optimum(people, params_for(people)))
    assert time.process_time() - start < 60
    assert np.all(optimum.error < 1e-4)


# --- wrong input ----------------------------------------------------------------------------------------


def test_people_of_several_families_have_the_optima_of_their_families():
    people = mix([TrustQubit(), MarkovTrust(), TrustQubit(phi0=1.0)])
    params = TrustHandoverParams(people=people, n_steps=6)
    optimum = handover_optimum(people, params, resolutions=(COARSE,))
    qubits = handover_optimum(people.only(TrustQubit), params, resolutions=(COARSE,))
    markov = handover_optimum(MarkovTrust(), params, resolutions=(COARSE,))
    np.testing.assert_array_equal(optimum.value, [qubits.value[0], markov.value[0], qubits.value[1]])
    np.testing.assert_array_equal(optimum.error, [qubits.error[0], markov.error[0], qubits.error[1]])


def test_wrong_input_is_refused_by_name():
    person = MarkovTrust()
    params = params_for(person)
    with pytest.raises(ValueError, match="n_steps must be an integer"):
        handover_optimum(person, params.replace(n_steps=0))
    with pytest.raises(ValueError, match="fail_cost must be a finite real number"):
        handover_optimum(person, params.replace(fail_cost=np.inf))
    with pytest.raises(ValueError, match=r"slow_factor must lie in \[0, 1\]"):
        handover_policy(person, params.replace(slow_factor=1.5))
    with pytest.raises(ValueError, match="resolutions must hold at least one"):
        handover_optimum(person, params, resolutions=())
    with pytest.raises(ValueError, match=r"memory_limit must be at least .* states of trust"):
        handover_optimum(person, params, memory_limit=1000)
    with pytest.raises(TypeError, match="n_steps must be a concrete integer"):
        jax.jit(lambda n: handover_optimum(person, params.replace(n_steps=n)).value)(3)
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\], got 0.0"):
        handover_cvar_optimum(person, params, 0.0)
    with pytest.raises(ValueError, match="person must be one person, got 2 people"):
        handover_returns(random_people("markov", 2), params, lambda trust, time: 3)
    with pytest.raises(ValueError, match="Resolution: sectors must be even"):
        Resolution(sectors=7)
    with pytest.raises(ValueError, match="Resolution: rings must be an integer of at least 2"):
        Resolution(rings=1)
    assert MEDIUM.rings > COARSE.rings
