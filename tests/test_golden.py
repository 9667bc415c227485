"""Published values of quantum-mind 3.1.0, in both precisions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs.clarification import ClarificationNoise
from qmind_jax.envs.trust_handover import TrustHandoverNoise
from qmind_jax.people import IndependentAnswers, MarkovTrust, ProjectiveAnswers, TrustQubit, default_domain
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import p_trust
from qmind_jax.quantum import projector, unit_vector
from qmind_jax.registry import make


def assert_close(got, expected, precision, name=""):
    np.testing.assert_allclose(got, expected, rtol=0, atol=precision.tolerance, err_msg=name)


@jax.jit
def answer_history(people, intent, questions, answers):
    """Probability of each answer of a history and, at its end, of "yes" to every question."""
    person = jnp.int32(0)

    def step(belief, asked):
        question, yes = asked
        p_yes = people.p_yes(belief, person, question)
        return people.after_answer(belief, person, question, yes), jnp.where(yes, p_yes, 1.0 - p_yes)

    belief, probabilities = jax.lax.scan(step, people.initial_belief(person, intent), (questions, answers))
    p_yes = jax.vmap(people.p_yes, (None, None, 0))(belief, person, jnp.arange(people.num_questions))
    return jnp.prod(probabilities), p_yes


def likelihood_and_p_yes(people, history):
    """Of all hypotheses, shapes (H,) and (H, Q)."""
    questions = np.array([question for question, _ in history], np.int32)
    answers = np.array([answer for _, answer in history], bool)
    results = [answer_history(people, h, questions, answers) for h in range(people.num_hypotheses)]
    return tuple(np.stack(values) for values in zip(*results, strict=True))


def test_unit_vectors(golden, precision):
    cases = golden("angles_to_unit")["cases"]
    assert len(cases) == 5
    for case in cases:
        assert_close(unit_vector(case["angles"]), case["vector"], precision, str(case["angles"]))


def test_projectors(golden):
    block = golden("projector")
    for case in block["cases"]:
        np.testing.assert_allclose(projector(case["rows"]), case["P"], rtol=0, atol=1e-10)
    dependent = block["wrong_for_dependent_leading_rows"]
    np.testing.assert_allclose(projector(dependent["rows"]), dependent["true_P"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1, 2, 7])
def test_default_domains(seed, golden, precision):
    block, person = golden(f"default_domain_{seed}"), default_domain(seed)
    assert list(person.hypotheses) == block["hypotheses"]
    assert list(person.questions) == block["questions"]
    assert_close(person.states, block["states"], precision, "states")
    assert_close(person.projectors, block["projectors"], precision, "projectors")
    assert_close(person.order_free().table, block["order_free_table"], precision, "order-free table")
    _, p_yes = likelihood_and_p_yes(as_population(person), [])
    assert_close(p_yes, block["order_free_table"], precision, "first answers")


def test_histories_of_the_default_domain(golden, precision):
    people = as_population(default_domain())
    blind = as_population(default_domain().order_free())
    rows = golden("default_domain_7")["histories"]
    assert len(rows) == 43
    assert sum(row["impossible"] for row in rows) == 6
    for row in rows:
        name = f"history {row['history']}"
        likelihood, p_yes = likelihood_and_p_yes(people, row["history"])
        if row["impossible"]:
            # The right value is a likelihood of 0 and any probabilities at all.
            assert_close(likelihood, 0.0, precision, name)
            assert np.all((p_yes >= 0) & (p_yes <= 1)), name
        else:
            assert_close(likelihood, row["likelihood"], precision, name)
            assert_close(p_yes, row["p_yes"], precision, name)
        likelihood, p_yes = likelihood_and_p_yes(blind, row["history"])
        assert_close(likelihood, row["likelihood_order_free"], precision, name)
        assert_close(p_yes, blind.table[0], precision, name)


def test_independent_answers(golden, precision):
    block = golden("independent_model")
    people = as_population(IndependentAnswers(block["table"]))
    for row in block["rows"]:
        history = [(int(question.removeprefix("q")), answer) for question, answer in row["history"]]
        likelihood, p_yes = likelihood_and_p_yes(people, history)
        assert_close(likelihood, row["likelihood"], precision, str(history))
        assert_close(p_yes, block["table"], precision, str(history))


def test_answer_sequences(golden, precision):
    block = golden("sequence_probabilities")
    person = ProjectiveAnswers(np.array([block["psi"]]), np.array([block["P_A"], block["P_B"]]))
    people = as_population(person)
    for order, expected in block["orders"].items():
        for answers, probability in expected.items():
            history = [("AB".index(q), int(a)) for q, a in zip(order, answers, strict=True)]
            likelihood, _ = likelihood_and_p_yes(people, history)
            assert_close(likelihood[0], probability, precision, f"{order} {answers}")


def test_clarification_episodes(golden, precision):
    env, params = make("Clarification-v0")
    people, transition = params.people, jax.jit(env.transition)
    zero = np.float32(0.0)
    episodes = golden("clarification_env")["episodes"]
    assert len(episodes) == 5
    for episode in episodes:
        intent = people.hypotheses.index(episode["target"])
        uniform = np.float32((intent + 0.5) / people.num_hypotheses)
        state = env.initial(ClarificationNoise(answer=zero, person=zero, intent=uniform), params)
        assert state.intent == intent
        np.testing.assert_array_equal(env.observation(state, params), episode["first_obs"])
        numbers = iter(episode["uniforms"])
        for step in episode["steps"]:
            asks = step["action"] < people.num_questions
            noise = ClarificationNoise(
                answer=np.float32(next(numbers)) if asks else zero, person=zero, intent=zero
            )
            after = transition(noise, state, step["action"], params)
            state = after.state
            np.testing.assert_array_equal(env.observation(state, params), step["obs"])
            assert_close(after.reward, step["reward"], precision)
            assert bool(after.terminated) == step["terminated"]
            assert bool(env.is_truncated(state, params)) == step["truncated"]
            assert after.info["question_answer"] == step["info"].get("answer", -1)
            assert bool(after.info["correct"]) == step["info"].get("correct", False)
            if asks:
                assert people.questions[step["action"]] == step["info"]["question"]


def test_trust_handover_episodes(golden, precision):
    env, params = make("TrustHandover-v0")
    transition, zero = jax.jit(env.transition), np.float32(0.0)
    episodes = golden("trust_handover_env")["episodes"]
    assert len(episodes) == 3
    for episode in episodes:
        state = env.initial(TrustHandoverNoise(outcome=zero, person=zero), params)
        np.testing.assert_array_equal(env.observation(state, params), episode["first_obs"])
        assert_close(p_trust((state.z, state.x)), episode["first_p_trust"], precision)
        numbers = iter(episode["uniforms"])
        for t, step in enumerate(episode["steps"]):
            uniform = np.float32(next(numbers)) if step["action"] < 3 else zero
            noise = TrustHandoverNoise(outcome=uniform, person=zero)
            after = transition(noise, state, step["action"], params)
            state, name = after.state, f"step {t}"
            np.testing.assert_array_equal(env.observation(state, params), np.float32(step["obs"]), name)
            assert_close(after.reward, step["reward"], precision, name)
            assert bool(after.terminated) == step["terminated"]
            assert bool(env.is_truncated(state, params)) == step["truncated"]
            assert_close(after.info["p_trust"], step["p_trust"], precision, name)
            assert_close(0.5 * state.x, step["rho01"], precision, name)


EVENTS = "SFYNW"


@jax.jit
def trust_after(people, events):
    """Trust of person 0 before and after each of some events, indices into EVENTS."""
    person = jnp.int32(0)

    def step(trust, event):
        branches = (
            lambda trust: people.after_outcome(trust, person, jnp.bool_(True)),
            lambda trust: people.after_outcome(trust, person, jnp.bool_(False)),
            lambda trust: people.after_answer(trust, person, jnp.bool_(True)),
            lambda trust: people.after_answer(trust, person, jnp.bool_(False)),
            lambda trust: people.after_wait(trust, person),
        )
        trust = jax.lax.switch(event, branches, trust)
        return trust, trust

    first = people.initial_trust(person)
    _, later = jax.lax.scan(step, first, events)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, later)


def trust_after_word(people, word):
    """``(z, x)`` at the end of a word; padded, so that all words are one program."""
    padded = np.array([EVENTS.index(event) for event in word] + [4] * (20 - len(word)), np.int32)
    return tuple(values[len(word)] for values in trust_after(people, padded))


def test_qubit_trajectories(golden, precision):
    for case in golden("open_system_trajectories")["cases"]:
        people = as_population(TrustQubit(**case["params"]))
        for word, (trust, rho01) in case["words"].items():
            z, x = trust_after_word(people, word)
            assert_close(p_trust((z, x)), trust, precision, f"{case['params']} {word}")
            assert_close(0.5 * x, rho01, precision, f"{case['params']} {word}")


def test_markov_trajectories(golden, precision):
    for case in golden("markov_trajectories")["cases"]:
        people = as_population(MarkovTrust(**case["params"]))
        for word, trust in case["words"].items():
            assert_close(p_trust(trust_after_word(people, word)), trust, precision, f"{case} {word}")


def final_yes(people, events, queries):
    """Probability of "yes" to the last of the queries, asked after the events with these indices."""
    total = 0.0
    *earlier, last = sorted(queries)
    for answers in itertools.product("YN", repeat=len(earlier)):
        probability, word = 1.0, ""
        for index in range(last + 1):
            word += "SF"[1 - events[index]]
            if index in earlier:
                p_yes = float(p_trust(trust_after_word(people, word)))
                answer = answers[earlier.index(index)]
                probability *= p_yes if answer == "Y" else 1.0 - p_yes
                word += answer
        total += probability * float(p_trust(trust_after_word(people, word)))
    return total


def test_effects_of_an_earlier_question(golden, precision):
    """How much an earlier question changes the last answer: of a qubit, and of a Markov chain never."""
    families = {"OpenSystemBelief": TrustQubit, "MarkovBelief": MarkovTrust}
    rows = golden("question_effect")["rows"]
    assert {row["model"] for row in rows} == set(families)
    for row in rows:
        people = as_population(families[row["model"]](**row["params"]))
        events, last, earlier = row["events"], row["last"], row["intermediate"]
        effect = final_yes(people, events, (earlier, last)) - final_yes(people, events, (last,))
        assert_close(effect, row["effect"], precision, str(row))
        if row["model"] == "MarkovBelief":
            assert_close(effect, 0.0, precision, str(row))
