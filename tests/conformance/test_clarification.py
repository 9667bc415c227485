"""Clarification against quantum-mind's ClarificationEnv, step by step on the same uniform numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from peer import ScriptedUniforms, answer_models, away_from, play_clarification
from quantum_mind.envs import ClarificationEnv

from qmind_jax.envs.clarification import Clarification, ClarificationNoise, ClarificationParams
from qmind_jax.people import IndependentAnswers, ProjectiveAnswers, default_domain, hard_domain
from qmind_jax.people.population import as_population
from qmind_jax.registry import override

EPISODES, HORIZON = 250, 9
COSTS = {"ask_cost": 0.3, "success_reward": 1.0, "error_cost": 5.0, "max_questions": 6}
POPULATIONS = {
    "real d2 rank 1": {"dimension": 2, "questions": 2, "hypotheses": 2, "people": 3},
    "real d3 ranks 1 2": {"dimension": 3, "questions": 3, "hypotheses": 2, "ranks": (1, 2)},
    "real d4 rank 2": {"dimension": 4, "questions": 4, "hypotheses": 4, "ranks": (2,), "people": 4},
    "real d5 rank 3": {"dimension": 5, "questions": 2, "hypotheses": 4, "ranks": (3,), "people": 2},
    "real d6 ranks 1 2 3": {"dimension": 6, "questions": 3, "hypotheses": 3, "ranks": (1, 2, 3)},
    "complex d2 rank 1": {"dimension": 2, "questions": 3, "hypotheses": 4, "people": 5, "complex": True},
    "complex d3 ranks 2 1": {
        "dimension": 3,
        "questions": 2,
        "hypotheses": 3,
        "ranks": (2, 1),
        "complex": True,
    },
    "complex d4 ranks 2 3": {
        "dimension": 4,
        "questions": 4,
        "hypotheses": 3,
        "ranks": (2, 3),
        "complex": True,
    },
    "independent 4x4": {"questions": 4, "hypotheses": 4, "people": 6},
    "independent 2x3": {"questions": 2, "hypotheses": 3},
}
OTHER_COSTS = (
    COSTS,
    {"ask_cost": 0.1, "success_reward": 2.5, "error_cost": 0.7, "max_questions": 9},
    {"ask_cost": 0.0, "success_reward": 0.0, "error_cost": 3.0, "max_questions": 1},
    {"ask_cost": 1.7, "success_reward": -1.0, "error_cost": -2.0, "max_questions": 4},
)


def play(params, person, intent, answers, actions):
    """Our episodes on a script: the first states, then every step of every episode."""
    env = Clarification()

    def episode(person, intent, answers, actions):
        noise = ClarificationNoise(answer=answers[0], person=person, intent=intent)
        first = env.initial(noise, params)

        def step(state, script):
            uniform, action = script
            question = jnp.minimum(action, params.people.num_questions - 1)
            p_yes = params.people.p_yes(state.belief, state.person, question)
            # Other numbers for the next episode than at the reset: a running one must not use them.
            noise = ClarificationNoise(answer=uniform, person=1.0 - person, intent=1.0 - intent)
            after = env.transition(noise, state, action, params)
            return after.state, {
                "observation": env.observation(after.state, params),
                "reward": after.reward,
                "terminated": after.terminated,
                "truncated": env.is_truncated(after.state, params),
                "p_yes": p_yes,
                "intent": after.info["intent"],
                "question_answer": after.info["question_answer"],
                "correct": after.info["correct"],
            }

        return first, env.observation(first, params), jax.lax.scan(step, first, (answers, actions))[1]

    return jax.vmap(episode)(person, intent, answers, actions)


compiled_play = jax.jit(play)


def compare(people, costs, tolerance, *, seed, episodes=EPISODES, play=compiled_play):
    """Play the same episodes with the peer and with ours; raise AssertionError where they differ.

    Returns:
        The largest difference between the two probabilities of "yes".
    """
    theirs = play_clarification(people, costs, seed=seed, episodes=episodes, horizon=HORIZON)
    env = Clarification()
    params = override(env, ClarificationParams(people=people), **costs)
    first, first_observation, steps = play(
        params,
        *(theirs[name] for name in ("person_uniform", "intent_uniform", "answer_uniform", "action")),
    )
    np.testing.assert_array_equal(first.person, theirs["person"], "person")
    np.testing.assert_array_equal(first.intent, theirs["intent"], "intent")
    np.testing.assert_array_equal(first_observation, theirs["first_observation"], "first observation")
    alive = theirs["alive"]
    asks = alive & (theirs["action"] < people.num_questions)
    ours = {name: np.asarray(value) for name, value in steps.items()}
    for name in ("observation", "terminated", "truncated", "question_answer", "correct"):
        np.testing.assert_array_equal(ours[name][alive], theirs[name][alive], name)
    intent = np.broadcast_to(theirs["intent"][:, None], alive.shape)
    np.testing.assert_array_equal(ours["intent"][alive], intent[alive], "intent in info")
    for name, where in (("reward", alive), ("p_yes", asks)):
        np.testing.assert_allclose(ours[name][where], theirs[name][where], 0, tolerance, err_msg=name)
    return np.max(np.abs(ours["p_yes"] - theirs["p_yes"])[asks], initial=0.0)


@pytest.fixture
def make_people(random_answering):
    def make(name, seed):
        if name == "default domain":
            return as_population(default_domain())
        if name == "hard domain":
            return as_population(hard_domain())
        settings = dict(POPULATIONS[name])
        if settings.pop("complex", False):
            settings |= {"complex_states": True, "complex_projectors": True}
        return random_answering(seed, **settings)

    return make


@pytest.mark.parametrize("name", ["default domain", "hard domain", *POPULATIONS])
def test_random_episodes_equal_those_of_the_peer(name, make_people, precision):
    index = ["default domain", "hard domain", *POPULATIONS].index(name)
    compare(make_people(name, index), COSTS, precision.tolerance, seed=index)


@pytest.mark.parametrize("costs", OTHER_COSTS, ids=lambda costs: f"max_questions={costs['max_questions']}")
def test_other_costs_and_horizons_equal_those_of_the_peer(costs, make_people, precision):
    people = make_people("real d4 rank 2", 100)
    compare(people, costs, precision.tolerance, seed=100 + costs["max_questions"])


def test_the_scenarios_hold_two_thousand_episodes_and_every_end(make_people):
    assert EPISODES * (2 + len(POPULATIONS)) >= 2000
    log = play_clarification(make_people("hard domain", 0), COSTS, seed=1, episodes=EPISODES, horizon=HORIZON)
    assert log["truncated"].any()
    assert log["terminated"].any()
    repeats = (
        (log["action"][:, 1:] == log["action"][:, :-1]) & log["alive"][:, 1:] & (log["action"][:, 1:] < 3)
    )
    assert repeats.sum() > 50


@pytest.mark.parametrize("family", ["independent", "projective"])
def test_a_uniform_equal_to_the_probability_answers_no(family):
    if family == "independent":
        people = as_population(IndependentAnswers([[0.5, 0.25], [0.75, 0.5]]))
    else:
        people = as_population(ProjectiveAnswers([[1, 0], [0, 1]], [np.full((2, 2), 0.5), np.eye(2)]))
    env, params = Clarification(), ClarificationParams(people=people)
    zero = np.float32(0.0)
    state = env.initial(ClarificationNoise(answer=zero, person=zero, intent=zero), params)
    for uniform, answer in ((0.5, 0), (np.nextafter(np.float32(0.5), np.float32(0)), 1)):
        peer_env = ClarificationEnv(answer_models(people)[0])
        peer_env.reset(options={"target": "h0"})
        peer_env.np_random = ScriptedUniforms([uniform])
        assert peer_env.step(0)[4]["answer"] == answer
        noise = ClarificationNoise(answer=np.float32(uniform), person=zero, intent=zero)
        assert env.transition(noise, state, 0, params).info["question_answer"] == answer


@pytest.mark.parametrize("name", ["default domain", "complex d2 rank 1"])
def test_an_impossible_answer_leaves_a_state_that_still_works(name, make_people, precision):
    """Yes and no to one question in a row have probability 0, but rounding can let that happen."""
    env, people = Clarification(), make_people(name, 5)
    params = override(env, ClarificationParams(people=people))
    questions = jnp.arange(people.num_questions)
    zero = jnp.float32(0.0)

    @jax.jit
    def run(question, script):
        def step(state, yes):
            # A number below every probability answers yes, one above every probability no.
            noise = ClarificationNoise(answer=jnp.where(yes, -1.0, 2.0), person=zero, intent=zero)
            after = env.transition(noise, state, question, params)
            probabilities = jax.vmap(people.p_yes, (None, None, 0))(
                after.state.belief, state.person, questions
            )
            return after.state, (after, probabilities)

        first = env.initial(ClarificationNoise(answer=zero, person=zero, intent=zero), params)
        return jax.lax.scan(step, first, script)[1]

    for script in np.array([[1, 0, 1, 0, 0, 1], [0, 1, 1, 0, 0, 1]], bool):
        for question in range(people.num_questions):
            after, probabilities = run(question, script)
            np.testing.assert_array_equal(after.info["question_answer"], script)
            np.testing.assert_allclose(after.reward, [-0.3] * 5 + [-5.3], rtol=1e-6)
            np.testing.assert_array_equal(after.state.answers[-1, question], 1.0)
            assert np.all(np.isfinite(after.state.belief)), "the belief must stay finite"
            assert np.linalg.norm(after.state.belief, axis=-1).max() < 1.0 + 1e-5
            assert np.all((probabilities >= 0.0) & (probabilities <= 1.0))


def test_away_from_moves_only_numbers_at_the_threshold():
    assert away_from(0.5, np.float32(0.25)) == np.float32(0.25)
    moved = away_from(0.25, np.float32(0.25))
    assert moved != np.float32(0.25)
    assert abs(moved - 0.25) < 1e-5
    assert away_from(1.0, np.float32(1 - 2**-24)) < 1 - 1e-6


# --- the comparison must notice a wrong kernel ------------------------------------------------------


def _faulty_transition(change):
    """Clarification.transition whose result is changed by ``change(env, after, state, params)``."""
    original = Clarification.transition

    def transition(self, noise, state, action, params):
        return change(self, original(self, noise, state, action, params), state, params)

    return Clarification, "transition", transition


def _swapped_comparison():
    original = Clarification.transition

    def transition(self, noise, state, action, params):
        question = jnp.minimum(action, params.people.num_questions - 1)
        p_yes = params.people.p_yes(state.belief, state.person, question)
        answer = jnp.where(noise.answer >= p_yes, -1.0, 2.0)
        return original(self, noise.replace(answer=answer), state, action, params)

    return Clarification, "transition", transition


def _free_last_question(env, after, state, params):
    out_of_questions = env.is_truncated(after.state, params) & ~after.terminated
    return after.replace(reward=after.reward + jnp.where(out_of_questions, params.ask_cost, 0.0))


def _no_error_cost_on_truncation(env, after, state, params):
    out_of_questions = env.is_truncated(after.state, params) & ~after.terminated
    return after.replace(reward=after.reward + jnp.where(out_of_questions, params.error_cost, 0.0))


def _keep_first_answers(env, after, state, params):
    answers = jnp.where(state.answers != 0, state.answers, after.state.answers)
    return after.replace(state=after.state.replace(answers=answers))


def _collapse_without_normalisation(original):
    def answer(self, belief, person, question, uniform):
        yes, _ = original(self, belief, person, question, uniform)
        kept, dropped = self._parts(belief, person, question)
        return yes, jnp.where(yes, jnp.stack(kept), jnp.stack(dropped))

    return answer


def _forget_the_question(original):
    def answer(self, belief, person, question, uniform):
        return original(self, belief, person, question, uniform)[0], belief

    return answer


def _collapse_to_the_other_side(original):
    def answer(self, belief, person, question, uniform):
        yes, _ = original(self, belief, person, question, uniform)
        return yes, self.after_answer(belief, person, question, ~yes)

    return answer


def _without_conjugation(original):
    def parts(self, belief, person, question):
        return original(self.__class__(self.states, jnp.conj(self.projectors)), belief, person, question)

    return parts


def _always_the_first_person(original):
    def initial_belief(self, person, intent):
        return original(self, 0 * person, intent)

    return initial_belief


def _next_hypothesis(original):
    def initial_belief(self, person, intent):
        return original(self, person, (intent + 1) % self.num_hypotheses)

    return initial_belief


def _early_truncation(self, state, params):
    return state.count >= params.max_questions - 1


def _on(name, fault):
    return ProjectiveAnswers, name, fault(getattr(ProjectiveAnswers, name))


FAULTS = {
    "answer comparison swapped": _swapped_comparison,
    "last question free": functools.partial(_faulty_transition, _free_last_question),
    "no error cost on truncation": functools.partial(_faulty_transition, _no_error_cost_on_truncation),
    "observation keeps the first answer": functools.partial(_faulty_transition, _keep_first_answers),
    "collapse without normalisation": lambda: _on("answer", _collapse_without_normalisation),
    "no collapse": lambda: _on("answer", _forget_the_question),
    "collapse to the other side": lambda: _on("answer", _collapse_to_the_other_side),
    "conjugation forgotten": lambda: _on("_parts", _without_conjugation),
    "always the first person": lambda: _on("initial_belief", _always_the_first_person),
    "wrong hypothesis": lambda: _on("initial_belief", _next_hypothesis),
    "truncated one question early": lambda: (Clarification, "is_truncated", _early_truncation),
}


@pytest.fixture
def fault_people(random_answering):
    return random_answering(
        3, people=3, dimension=2, questions=2, complex_states=True, complex_projectors=True
    )


def fresh_play():
    """A version of :func:`play` that JAX has not compiled yet, so that it sees a patched kernel."""
    return jax.jit(lambda *script: play(*script))


def test_without_a_fault_the_comparison_passes(fault_people):
    assert compare(fault_people, COSTS, 1e-5, seed=0, episodes=60, play=fresh_play()) < 1e-5


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_notices_a_fault(fault, fault_people, monkeypatch):
    monkeypatch.setattr(*FAULTS[fault]())
    with pytest.raises(AssertionError):
        compare(fault_people, COSTS, 1e-5, seed=0, episodes=60, play=fresh_play())
