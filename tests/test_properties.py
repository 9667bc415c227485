"""What must hold for all people: probabilities, collapse, order effects, and long runs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmind_jax import noise
from qmind_jax.envs import Clarification, ClarificationParams, TrustHandover, TrustHandoverParams
from qmind_jax.people import BetaTrust, MarkovTrust, ProjectiveAnswers, TrustQubit, handover_population, mix
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import p_trust
from qmind_jax.quantum import norm_squared, projector
from qmind_jax.registry import override

seeds = st.integers(0, 2**32 - 1)
KINDS = {
    "real": {"dimension": 4, "ranks": (1, 2, 3)},
    "complex": {"dimension": 3, "ranks": (1, 2), "complex_states": True, "complex_projectors": True},
}


@jax.jit
def follow(people, intent, questions, answers):
    """Beliefs and ``p_yes`` before each question of a sequence, for person 0."""

    def step(belief, asked):
        question, yes = asked
        p_yes = people.p_yes(belief, 0, question)
        return people.after_answer(belief, 0, question, yes), (belief, p_yes)

    belief, (beliefs, p_yes) = jax.lax.scan(step, people.initial_belief(0, intent), (questions, answers))
    return belief, beliefs, p_yes


def follow_sampled(people, seed, steps=12):
    """A sequence of random questions, answered with the probabilities of the person."""
    rng = np.random.default_rng(seed)
    questions = rng.integers(people.num_questions, size=steps)
    uniforms = jnp.asarray(rng.uniform(1e-5, 1 - 1e-5, steps), jnp.float32)
    return questions, *sampled(people, rng.integers(people.num_hypotheses), questions, uniforms)


@jax.jit
def sampled(people, intent, questions, uniforms):
    def step(belief, asked):
        question, uniform = asked
        p_yes = people.p_yes(belief, 0, question)
        yes = uniform < p_yes
        return people.after_answer(belief, 0, question, yes), (belief, p_yes, yes)

    return jax.lax.scan(step, people.initial_belief(0, intent), (questions, uniforms))[1]


# --- answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_yes_and_no_have_probabilities_that_sum_to_one(kind, seed, random_answering):
    people = random_answering(seed, **KINDS[kind])
    questions, beliefs, p_yes, _ = follow_sampled(people, seed)
    projectors = people.projectors[0][questions]
    kept = norm_squared(jnp.einsum("tij,tj->ti", projectors, beliefs))
    dropped = norm_squared(beliefs - jnp.einsum("tij,tj->ti", projectors, beliefs))
    np.testing.assert_allclose(kept, p_yes, atol=1e-5)
    np.testing.assert_allclose(kept + dropped, 1.0, atol=1e-5)
    assert np.all((p_yes >= 0) & (p_yes <= 1))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_asking_is_drawing_the_answer_and_then_collapsing(kind, seed, random_answering):
    people = random_answering(seed, **KINDS[kind])
    uniform = np.random.default_rng(seed).uniform()
    for family in (people, people.order_free()):
        belief = family.initial_belief(0, 1)
        yes, after = jax.jit(lambda family, *asked: family.answer(*asked))(family, belief, 0, 1, uniform)
        assert yes == (uniform < family.p_yes(belief, 0, 1))
        np.testing.assert_allclose(after, family.after_answer(belief, 0, 1, yes), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_beliefs_stay_unit_vectors(kind, seed, random_answering):
    people = random_answering(seed, **KINDS[kind])
    _, beliefs, _, _ = follow_sampled(people, seed, steps=40)
    np.testing.assert_allclose(norm_squared(beliefs), 1.0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_asking_again_at_once_gives_the_same_answer(kind, seed, random_answering):
    people = random_answering(seed, **KINDS[kind])
    rng = np.random.default_rng(seed)
    questions = np.repeat(rng.integers(people.num_questions, size=6), 2)
    uniforms = jnp.asarray(rng.uniform(1e-5, 1 - 1e-5, 12), jnp.float32)
    _, p_yes, yes = sampled(people, 0, questions, uniforms)
    np.testing.assert_array_equal(yes[1::2], yes[::2])
    np.testing.assert_allclose(p_yes[1::2], yes[::2], atol=2e-6)


@given(seed=seeds)
def test_independent_answers_forget_what_was_asked(seed, random_answering):
    people = random_answering(seed, hypotheses=2, questions=3)
    questions, beliefs, p_yes, _ = follow_sampled(people, seed)
    np.testing.assert_array_equal(beliefs, np.broadcast_to(beliefs[0], beliefs.shape))
    assert np.any(np.all(people.table[0][:, questions] == p_yes, axis=1))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
def test_single_precision_is_close_to_double(kind, seed, random_answering):
    questions, _, p_yes, yes = follow_sampled(random_answering(seed, **KINDS[kind]), seed, steps=6)
    with jax.enable_x64(True):
        people = random_answering(seed, **KINDS[kind])
        intent = _intent(seed, people, 6)
        _, _, exact = follow(people, intent, questions, np.asarray(yes))
    np.testing.assert_allclose(p_yes, exact, atol=2e-4)


def _intent(seed, people, steps):
    """The intent that ``follow_sampled`` draws."""
    rng = np.random.default_rng(seed)
    rng.integers(people.num_questions, size=steps)
    rng.uniform(1e-5, 1 - 1e-5, steps)
    return rng.integers(people.num_hypotheses)


def order_effect(person):
    """Largest difference between the joint probabilities of A then B and B then A."""
    people = as_population(person)

    def joint(first, second):
        def probability(a, b):
            _, _, p_yes = follow(people, 0, np.array([first, second]), np.array([a, b]))
            of = np.where([a, b], p_yes, 1.0 - p_yes)
            return of[0] * of[1]

        return np.array([[probability(a, b) for b in (True, False)] for a in (True, False)])

    ab, ba = joint(0, 1), joint(1, 0).T
    np.testing.assert_allclose(ab.sum(), 1.0, atol=1e-5)
    np.testing.assert_allclose(ba.sum(), 1.0, atol=1e-5)
    # The QQ equality of Lüders answers: agreeing pairs are as likely in both orders.
    np.testing.assert_allclose(np.trace(ab), np.trace(ba), atol=1e-5)
    return np.abs(ab - ba).max()


@given(seed=seeds, ranks=st.tuples(st.integers(1, 3), st.integers(1, 3)))
def test_questions_that_commute_have_no_order_effect(seed, ranks):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    matrices = [projector(basis[rng.permutation(4)[:rank]]) for rank in ranks]
    person = ProjectiveAnswers(rng.normal(size=(1, 4)), matrices)
    assert order_effect(person) < 1e-5


@given(seed=seeds, angle=st.floats(0.3, 1.2), phase=st.floats(0, 6.28))
def test_questions_that_do_not_commute_have_an_order_effect(seed, angle, phase):
    """For |0> and a question at an angle, P(yes to A, yes to B) is cos^2, in the other order cos^4."""
    tilted = np.array([np.cos(angle), np.sin(angle) * np.exp(1j * phase)])
    person = ProjectiveAnswers(np.array([[1.0, 0.0]]), np.array([np.diag([1.0, 0.0]), projector(tilted)]))
    cosine = np.cos(angle) ** 2
    assert order_effect(person) >= cosine - cosine**2 - 1e-5
    assert order_effect(person) > 0.05


def test_a_twin_who_answers_independently_has_no_order_effect(random_answering):
    person = random_answering(5, dimension=4, ranks=(2,))[0]
    assert order_effect(person) > 0.05
    people = as_population(person.order_free())
    for answers in ((True, False), (False, True)):
        probabilities = []
        for order in ((0, 1), (1, 0)):
            of = dict(zip(order, answers if order == (0, 1) else answers[::-1], strict=True))
            given_answers = np.array([of[q] for q in order])
            _, _, p_yes = follow(people, 0, np.array(order), given_answers)
            probabilities.append(np.prod(np.where(given_answers, p_yes, 1.0 - p_yes)))
        np.testing.assert_allclose(*probabilities, atol=1e-6)


# --- trust ------------------------------------------------------------------------------------------

events = st.lists(st.sampled_from("SFYNW"), max_size=30)


@jax.jit
def trust_path(people, word):
    """``(z, x)`` of person 0 before and after each event, 0..4 for success, failure, yes, no, wait."""

    def step(trust, event):
        trust = jax.lax.switch(
            event,
            (
                lambda trust: people.after_outcome(trust, 0, jnp.bool_(True)),
                lambda trust: people.after_outcome(trust, 0, jnp.bool_(False)),
                lambda trust: people.after_answer(trust, 0, jnp.bool_(True)),
                lambda trust: people.after_answer(trust, 0, jnp.bool_(False)),
                lambda trust: people.after_wait(trust, 0),
            ),
            trust,
        )
        return trust, trust

    first = people.initial_trust(0)
    _, later = jax.lax.scan(step, first, word)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)


def path_of(person, word):
    """Trust along a word of events, padded to one length so that all words are one program."""
    padded = np.array(["SFYNW".index(event) for event in word] + [4] * (30 - len(word)), np.int32)
    return tuple(np.asarray(values)[: len(word) + 1] for values in trust_path(as_population(person), padded))


qubits = st.builds(
    lambda *values: TrustQubit(*values),
    st.floats(-7, 7),
    st.floats(0.01, 3.125),
    st.floats(0.01, 3.125),
    st.floats(0, 1),
)
markovs = st.builds(lambda *values: MarkovTrust(*values), *[st.floats(0, 1)] * 3)
betas = st.builds(
    lambda *values: BetaTrust(*values),
    st.floats(0, 1),
    st.floats(0.01, 100),
    st.floats(0, 10),
    st.floats(0, 10),
)


@given(qubits, events)
def test_the_bloch_vector_stays_in_the_disc_and_only_pure_people_on_its_rim(person, word):
    z, x = path_of(person, word)
    length = z**2 + x**2
    assert np.all(length <= 1 + 1e-5)
    np.testing.assert_allclose(length[0], 1.0, atol=1e-5)
    # Nothing but the collapse by a question can make a mixed state purer.
    for before, after, event in zip(length[:-1], length[1:], word, strict=True):
        assert event in "YN" or after <= before + 1e-5


mixed = st.one_of(qubits, markovs, betas).map(lambda person: mix([person])[0])


@given(st.one_of(qubits, markovs, betas, mixed), events)
def test_trust_is_a_probability_whatever_happens(person, word):
    z, x = path_of(person, word)
    assert np.all(np.isfinite(z) & np.isfinite(x))
    assert np.all(np.abs(z) <= 1 + 1e-5)
    trust = np.asarray(p_trust((jnp.asarray(z), jnp.asarray(x))))
    assert np.all((trust >= 0) & (trust <= 1))


@given(st.one_of(qubits, markovs), events, st.booleans())
def test_an_answer_makes_trust_certain(person, word, yes):
    z, x = path_of(person, [*word[:28], "Y" if yes else "N"])
    assert z[-1] == (1.0 if yes else -1.0)
    assert x[-1] == 0.0


@given(st.one_of(markovs, betas), events)
def test_success_never_lowers_and_failure_never_raises_classical_trust(person, word):
    z, _ = path_of(person, word)
    for before, after, event in zip(z[:-1], z[1:], word, strict=True):
        if event == "S":
            assert after >= before - 1e-6
        if event == "F":
            assert after <= before + 1e-6
        if event == "W":
            assert after == before


@given(betas, events)
def test_asking_leaves_no_trace_in_beta_trust(person, word):
    asked, silent = path_of(person, word), path_of(person, [e for e in word if e not in "YN"])
    for with_questions, without in zip(asked, silent, strict=True):
        assert with_questions[-1] == without[-1]


@given(betas)
def test_experience_stabilises_beta_trust(person):
    """One more experience of weight w moves the mean by at most w over all experience so far."""
    z, amount = path_of(person, "SF" * 10)
    np.testing.assert_allclose(amount[-1] - amount[0], 10 * (person.w_s + person.w_f), rtol=1e-3, atol=1e-4)
    weight = np.array([person.w_s, person.w_f] * 10)
    assert np.all(np.abs(np.diff(z)) / 2 <= weight / amount[1:] + 1e-5)


def final_yes(person, outcomes, queries):
    """Probability of "yes" to the last of the queries, the answers to the others summed out."""
    total, *earlier = 0.0, *sorted(queries)[:-1]
    last = max(queries)
    for pattern in range(2 ** len(earlier)):
        probability, word = 1.0, []
        for i, success in enumerate(outcomes[: last + 1]):
            word.append("S" if success else "F")
            if i in earlier:
                yes = bool(pattern >> earlier.index(i) & 1)
                trust = 0.5 * (1.0 + float(path_of(person, word)[0][-1]))
                probability *= trust if yes else 1.0 - trust
                word.append("Y" if yes else "N")
        total += probability * 0.5 * (1.0 + float(path_of(person, word)[0][-1]))
    return total


outcomes = st.lists(st.booleans(), min_size=3, max_size=8)


@given(markovs, outcomes, st.data())
def test_an_earlier_question_has_no_effect_on_a_markov_person(person, outcomes, data):
    earlier = data.draw(st.integers(0, len(outcomes) - 2))
    last = len(outcomes) - 1
    effect = final_yes(person, outcomes, (earlier, last)) - final_yes(person, outcomes, (last,))
    assert abs(effect) < 1e-5


@given(outcomes, st.floats(0.1, 3.0), st.data())
def test_an_earlier_question_has_no_effect_on_a_person_without_coherence(outcomes, phi0, data):
    person = TrustQubit(phi0, gamma=1.0)
    earlier = data.draw(st.integers(0, len(outcomes) - 2))
    last = len(outcomes) - 1
    effect = final_yes(person, outcomes, (earlier, last)) - final_yes(person, outcomes, (last,))
    assert abs(effect) < 1e-5


def test_an_earlier_question_changes_the_last_answer_of_a_qubit():
    outcomes = (True, True, False, True, False, True)
    effect = final_yes(TrustQubit(), outcomes, (2, 5)) - final_yes(TrustQubit(), outcomes, (5,))
    np.testing.assert_allclose(effect, -0.0758462411, atol=1e-5)


@given(qubits, events)
def test_single_precision_of_trust_is_close_to_double(person, word):
    z, x = path_of(person, word)
    with jax.enable_x64(True):
        fields = {name: np.float64(getattr(person, name)) for name in ("phi0", "a_pos", "a_neg", "gamma")}
        exact_z, exact_x = path_of(TrustQubit(**fields), word)
    np.testing.assert_allclose(z, exact_z, atol=2e-5)
    np.testing.assert_allclose(x, exact_x, atol=2e-5)


# --- long runs --------------------------------------------------------------------------------------

LANES, STEPS = 10_000, 1_000


@functools.partial(jax.jit, static_argnames=("env", "check", "num_actions"))
def long_run(env, params, key, num_actions, check):
    """Random actions in many lanes; what must hold is reduced to a few numbers at every step."""

    def step(state, step_key):
        keys = jax.random.split(step_key)
        action = noise.choose(noise.uniforms(keys[0], (LANES,))[0], num_actions)
        observation, state, reward, terminated, truncated, _ = env.step_batch(keys[1], state, action, params)
        finite = jnp.all(jnp.isfinite(reward)) & jnp.all(jnp.isfinite(observation))
        done = terminated | truncated
        return state, (finite, jnp.sum(done), jnp.abs(observation).max(), *check(state))

    _, state = env.reset_batch(key, params, LANES)
    return jax.lax.scan(step, state, jax.random.split(key, STEPS))[1]


def belief_length(state):
    return (jnp.abs(norm_squared(state.belief) - 1.0).max(),)


def bloch_length(state):
    return (jnp.max(state.z**2 + state.x**2),)


@pytest.mark.parametrize("max_questions", [6, 10**6])
def test_ten_million_steps_of_clarification_stay_finite_and_normalised(max_questions, random_answering):
    """With the longest horizon only questions are asked: one episode of 1,000 collapses per lane."""
    people = random_answering(0, people=8, dimension=3, ranks=(1, 2), hypotheses=3, questions=3)
    env = Clarification()
    params = override(env, ClarificationParams(people=people), max_questions=max_questions)
    num_actions = 6 if max_questions == 6 else 3
    finite, done, size, error = long_run(env, params, jax.random.key(0), num_actions, belief_length)
    assert np.all(finite)
    assert size.max() == 1.0
    assert error.max() < 1e-3
    assert done.sum() == (0 if max_questions > STEPS else pytest.approx(LANES * STEPS / 2, rel=0.05))


@pytest.mark.parametrize("n_steps", [20, 10**6])
def test_ten_million_steps_of_trust_handover_stay_finite_and_in_the_disc(n_steps):
    """With the longest horizon the Bloch vector is turned 1,000 times and never started anew."""
    people = handover_population(jax.random.key(0), 100)
    people = people.replace(gamma=people.gamma.at[:50].set(0.0))
    env = TrustHandover()
    params = override(env, TrustHandoverParams(people=people), n_steps=n_steps)
    finite, done, size, length = long_run(env, params, jax.random.key(0), 4, bloch_length)
    assert np.all(finite)
    assert size.max() == 1.0
    assert length.max() < 1 + 1e-3
    assert done.sum() == (0 if n_steps > STEPS else LANES * STEPS // 20)
