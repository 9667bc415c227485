"""People of several families in one population: each moves exactly as in the pure family."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qmind_jax
from qmind_jax.people import (
    BetaTrust,
    MarkovTrust,
    MixedTrust,
    TrustQubit,
    default_domain,
    handover_population,
    load_people,
    mix,
    save_people,
    stack,
    trust_population,
)
from qmind_jax.people.trust import p_trust
from qmind_jax.policies.scripted import TrustRule

SIZE = 40


@pytest.fixture(scope="module")
def pure():
    """A population of every family."""
    key = jax.random.key(0)
    qubits = handover_population(key, SIZE)
    return [
        qubits.replace(gamma=qubits.gamma.at[:2].set(jnp.array([0.0, 1.0]))),
        handover_population(key, SIZE, "markov"),
        trust_population(key, SIZE, "beta").replace(n0=np.linspace(0.1, 5.0, SIZE), w_s=np.full(SIZE, 9.0)),
    ]


def courses(people, outcomes, answers):
    """(z, x) of everybody after every event: an outcome, a wait, the other outcome, a question."""
    everybody = jnp.arange(len(people))
    trusts = [people.initial_trust(everybody)]
    for success, yes in zip(outcomes, answers, strict=True):
        trusts.append(people.after_outcome(trusts[-1], everybody, success))
        trusts.append(people.after_wait(trusts[-1], everybody))
        trusts.append(people.after_outcome(trusts[-1], everybody, ~success))
        trusts.append(people.after_answer(trusts[-1], everybody, yes))
    return trusts


@pytest.mark.parametrize("jit", [False, True])
def test_everybody_moves_exactly_as_in_the_pure_family(pure, precision, jit):
    pure = [people.replace() for people in pure]  # in the precision that is switched on
    outcomes, answers = np.random.default_rng(1).integers(0, 2, (2, 6)).astype(bool)
    run = jax.jit(courses) if jit else courses
    mixed = run(mix(pure), outcomes, answers)
    for i, people in enumerate(pure):
        expected = run(people, outcomes, answers)
        part = jax.tree.map(lambda leaf, i=i: leaf[i * SIZE : (i + 1) * SIZE], mixed)
        for left, right in zip(jax.tree.leaves(part), jax.tree.leaves(expected), strict=True):
            assert left.dtype == right.dtype == precision.name
            # Op by op bit for bit; inside one program XLA may contract a product and a sum into one rounding.
            np.testing.assert_allclose(left, right, rtol=0, atol=0.1 * precision.tolerance if jit else 0)


@pytest.mark.parametrize("index", range(3))
def test_an_environment_plays_the_same_episodes_with_mixed_and_with_pure_people(pure, index):
    lanes, key = 64, jax.random.key(5)
    actions = np.random.default_rng(0).integers(0, 4, (25, lanes))
    results = []
    for people in (pure[index], mix([pure[index]])):
        env, params = qmind_jax.make("TrustHandover-v0", people=people)
        _, state = env.reset_batch(key, params, lanes)
        steps = []
        for t, action in enumerate(actions):
            observation, state, reward, _, truncated, info = env.step_batch(
                jax.random.fold_in(key, t), state, action, params
            )
            steps.append((observation, reward, truncated, state.person, info["p_trust"]))
        results.append([np.stack(values) for values in zip(*steps, strict=True)])
    for mixed, expected in zip(*results, strict=True):
        np.testing.assert_allclose(mixed, expected, rtol=0, atol=1e-6 if mixed is results[0][-1] else 0)


def test_one_program_serves_all_mixtures(pure):
    traces = []

    @jax.jit
    def trust_after_a_failure(people):
        traces.append(people)
        trust = people.after_outcome(people.initial_trust(0), 0, False)
        return p_trust(trust)

    for people in pure:
        expected = trust_after_a_failure.__wrapped__(people)
        traces.clear()
        np.testing.assert_allclose(trust_after_a_failure(mix([people])), expected, atol=1e-6)
    assert not traces, "the second and third family should have reused the program of the first"


def test_mixing_keeps_the_order_and_taking_apart_gives_the_people_back(pure):
    qubits, chains, betas = pure
    people = mix([chains[0], qubits, mix([betas, chains[1:]])])
    assert isinstance(people, MixedTrust)
    assert len(people) == 3 * SIZE
    assert people.family.dtype == jnp.int32
    names = [people.families[i].__name__ for i in people.family]
    assert names == ["MarkovTrust"] + SIZE * ["TrustQubit"] + SIZE * ["BetaTrust"] + (SIZE - 1) * [
        "MarkovTrust"
    ]
    for expected in pure:
        got = people.only(type(expected))
        assert type(got) is type(expected)
        jax.tree.map(np.testing.assert_array_equal, got, expected)
    assert len(mix([qubits]).only(BetaTrust)) == 0
    jax.tree.map(np.testing.assert_array_equal, mix(qubits), mix([qubits]))
    jax.tree.map(np.testing.assert_array_equal, stack([people[:3], people[3:]]), people)


def test_the_average_person_is_of_the_most_frequent_family(pure):
    qubits, chains, betas = pure
    average = mix([qubits[:5], chains, betas[:5]]).average()
    assert len(average) == 1
    (chain,) = average.only(MarkovTrust)
    np.testing.assert_allclose(chain.up, chains.up.mean(), rtol=1e-5)
    np.testing.assert_allclose(chain.p0, chains.p0.mean(), rtol=1e-5)
    np.testing.assert_allclose(qubits.average().phi0, [qubits.phi0.mean()], rtol=1e-6)
    _, params = qmind_jax.make("TrustHandover-v0", people=mix(pure))
    assert len(TrustRule.for_params(params).people.only(TrustQubit)) == 1


def test_gradients_are_those_of_the_families_and_finite(pure):
    pure = [people[:4] for people in pure]
    outcomes, answers = np.array([[True, False, True], [False, True, False]])

    def total(people):
        return sum(p_trust(trust).sum() for trust in courses(people, outcomes, answers))

    gradient = jax.grad(total, allow_int=True)(mix(pure))
    by = (("phi0", "a_pos"), ("p0", "up"), ("p0", "w_s"))
    for i, (people, names) in enumerate(zip(pure, by, strict=True)):
        expected = jax.grad(total)(people)
        for ours, theirs in zip((gradient.initial, gradient.success), names, strict=True):
            np.testing.assert_allclose(ours[4 * i : 4 * i + 4], getattr(expected, theirs), atol=1e-6)
    for name in ("initial", "success", "failure", "memory"):
        assert np.all(np.isfinite(getattr(gradient, name)))


def test_mixed_people_are_saved_and_come_back_bit_for_bit(pure, tmp_path):
    people = mix(pure)
    save_people(tmp_path / "people.npz", people)
    loaded = load_people(tmp_path / "people.npz")
    assert loaded.family.dtype == jnp.int32
    jax.tree.map(np.testing.assert_array_equal, loaded, people)


FIELDS = {"family": [0, 1, 2], "initial": [0.5] * 3, "success": [0.2] * 3, "failure": [0.3] * 3}
FIELDS |= {"memory": [0.5, 0.0, 1.0]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": [0, 3, 2]}, r"MixedTrust: family must be an index below 3 and at least 0, got 3"),
        ({"family": [0, -1, 2]}, r"family must be an index below 3 and at least 0, got -1"),
        ({"success": [4.0, 0.2, 9.0]}, r"TrustQubit: a_pos must lie in \(0, 3\.14159\), got 4"),
        ({"success": [0.2, 1.5, 9.0]}, r"MarkovTrust: up must lie in \[0, 1\], got 1\.5"),
        ({"memory": [0.2, 0.0, 0.0]}, r"BetaTrust: n0 must lie in \(0, inf\), got 0"),
        ({"initial": [0.2, np.nan, 0.0]}, r"MixedTrust: initial must be finite"),
        ({"initial": [0.2, 0.3]}, r"MixedTrust: fields differ in number of people"),
    ],
)
def test_values_that_make_no_person_are_refused_by_the_persons_own_family(change, message):
    MixedTrust(**FIELDS)
    with pytest.raises(ValueError, match=message):
        MixedTrust(**FIELDS | change)


def test_what_cannot_be_mixed_is_refused_by_name(pure):
    with pytest.raises(TypeError, match="family must be integers"):
        MixedTrust(**FIELDS | {"family": [0.0, 1.0, 2.0]})
    with pytest.raises(TypeError, match=r"people\[1\] must be of TrustQubit, .*got ProjectiveAnswers"):
        mix([TrustQubit(), default_domain()])
    with pytest.raises(ValueError, match="at least one person"):
        mix([])
    with pytest.raises(TypeError, match="mix joins families that trust"):
        stack([TrustQubit(), MarkovTrust()])
    with pytest.raises(ValueError, match="family must be one of TrustQubit, MarkovTrust, BetaTrust"):
        mix(pure).only(MixedTrust)
    with pytest.raises(TypeError, match="inside jit"):
        jax.jit(lambda people: people.only(TrustQubit))(mix(pure))
