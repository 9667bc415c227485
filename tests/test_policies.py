"""Scripted and learned policies: published decisions, published returns, and the exact optimum."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import clarification_optimum

from qmind_jax.envs.trust_handover import ASK, HAND_OVER, SLOW, WAIT
from qmind_jax.evaluation import evaluate
from qmind_jax.people import MarkovTrust, TrustQubit, default_domain
from qmind_jax.people.population import as_population
from qmind_jax.policies import Constant, LearnedPolicy, QuestionPlanner, TrustRule, UniformRandom, yardsticks
from qmind_jax.policies.networks import ActorCritic
from qmind_jax.registry import make

KEY = jax.random.key(0)
PRICES = ("fail_cost", "slow_cost", "ask_cost", "wait_cost", "slow_factor")


# --- the trust rule against the published one -------------------------------------------------------

ACTIONS = {"handover": HAND_OVER, "slow_handover": SLOW, "ask": ASK, "wait": WAIT}
# What the robot did and what it then sees (last outcome, last answer), for each letter of a word. The
# other entry is the opposite, so that looking at the wrong one is noticed.
LETTERS = {
    "S": (HAND_OVER, [1.0, -1.0, 0.5]),
    "F": (SLOW, [-1.0, 1.0, 0.5]),
    "Y": (ASK, [-1.0, 1.0, 0.5]),
    "N": (ASK, [1.0, -1.0, 0.5]),
    "W": (WAIT, [1.0, 1.0, 0.5]),
}


@jax.jit
def follow(rule, carry, action, observation):
    """What the rule does, and remembers, after an action that it was made to take."""
    return rule.act(carry.replace(action=action), observation, KEY)


@jax.jit
def decide(rules, carry):
    """What many rules with other prices do after the same word."""
    return jax.vmap(lambda rule: rule.act(carry, jnp.zeros(3), KEY)[0])(rules)


def rule_of(row):
    kind = MarkovTrust if "up" in row["params"] else TrustQubit
    prices = (4.0, 0.5, 0.2, 0.1, 0.3) if kind is MarkovTrust else (10.0, 1.0, 0.5, 0.3, 0.5)
    prices = {name: jnp.asarray(price, float) for name, price in zip(PRICES, prices, strict=True)}
    return TrustRule(people=as_population(kind(**row["params"])), **prices)


def after_word(rule, word):
    """Decision and memory of the rule after a word of events."""
    carry = rule.init(None)
    action, carry = follow(rule, carry, jnp.int32(-1), jnp.zeros(3))
    for letter in word:
        taken, seen = LETTERS[letter]
        action, carry = follow(rule, carry, jnp.int32(taken), jnp.asarray(seen))
    return action, carry


def test_the_trust_rule_decides_as_published(precision, golden):
    for row in golden("handover_decide")["rows"]:
        action, carry = after_word(rule_of(row), row["word"])
        assert action == ACTIONS[row["action"]], row
        np.testing.assert_allclose((1 + carry.trust[0]) / 2, row["p_trust"], atol=precision.tolerance)


def test_the_trust_rule_expects_the_published_costs(precision, golden):
    """Every price is moved to just above and just below the point where two actions cost the same."""
    dear, margin = 1e3, 100 * precision.tolerance
    for row in golden("handover_decide")["rows"]:
        rule, costs = rule_of(row), row["costs"]
        _, carry = after_word(rule, row["word"])
        carry = carry.replace(action=jnp.int32(-1))
        cheapest = {
            name: min(cost for other, cost in costs.items() if other != name) for name in ("ask", "wait")
        }
        trials, expected = [], []
        for side in (-margin, margin):
            # Asking and waiting change their own cost alone; waiting is out of the way for the former.
            move = cheapest["ask"] - costs["ask"] + side
            trials.append(rule.replace(ask_cost=rule.ask_cost + move, wait_cost=jnp.asarray(dear)))
            move = cheapest["wait"] - costs["wait"] + side
            trials.append(rule.replace(wait_cost=rule.wait_cost + move))
            move = costs["handover"] - costs["slow_handover"] + side
            trials.append(
                rule.replace(
                    slow_cost=rule.slow_cost + move,
                    ask_cost=jnp.asarray(dear),
                    wait_cost=jnp.asarray(dear),
                )
            )
            fast_or_slow = ACTIONS[min(("handover", "slow_handover"), key=costs.get)]
            best = ACTIONS[row["action"]]
            below = side < 0
            expected += [
                ASK if below else fast_or_slow,
                WAIT if below else best,
                SLOW if below else HAND_OVER,
            ]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *trials)
        assert decide(stacked, carry).tolist() == expected, row


def test_the_trust_rule_takes_the_first_of_equally_cheap_actions():
    person = as_population(MarkovTrust(p0=0.5))
    rule = TrustRule(person, *map(jnp.float32, (2.0, 0.0, 1.0, 5.0, 1.0)))
    # Half of the hand-overs fail: fast, slow and asking all cost 1.
    assert rule.act(rule.init(None), jnp.zeros(3), KEY)[0] == HAND_OVER
    # Slow costs 2 * 0.5 * 0.5 + 0.5 = 1 as well; asking 0.25 + 0.5 * 1.5 = 1; hand over 1.
    rule = TrustRule(person, *map(jnp.float32, (2.0, 0.5, 0.25, 5.0, 0.5)))
    assert rule.act(rule.init(None), jnp.zeros(3), KEY)[0] == HAND_OVER
    rule = TrustRule(person, *map(jnp.float32, (2.1, 0.5, 0.225, 5.0, 0.5)))
    # Now the hand-over costs 1.05, slow 0.5 + 1.05 / 2 = 1.025, asking 0.225 + 0.5 * 1.55 = 1.
    assert rule.act(rule.init(None), jnp.zeros(3), KEY)[0] == ASK


def test_the_trust_rule_never_waits_whatever_the_prices():
    rng = np.random.default_rng(0)
    people = MarkovTrust(*rng.uniform(size=(3, 5000)))
    prices = rng.uniform(0.0, 5.0, size=(5, 5000)) * np.array([[4], [1], [1], [1], [0.2]])

    def first_action(person, *prices):
        rule = TrustRule(as_population(person), *prices)
        return rule.act(rule.init(None), jnp.zeros(3), KEY)[0]

    actions = jax.jit(jax.vmap(first_action))(people, *prices)
    assert set(actions.tolist()) == {HAND_OVER, SLOW, ASK}


def test_the_trust_rule_follows_the_true_trust_of_a_person_it_knows():
    env, params = make("TrustHandover-v0")
    rule = TrustRule.for_params(params)
    act = jax.vmap(rule.act, in_axes=(0, 0, None))

    @jax.jit
    def play(key):
        observation, state = env.reset_batch(key, params, 200)
        carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (200, *x.shape)), rule.init(params))

        def step(loop, step_key):
            observation, state, carry = loop
            action, carry = act(carry, observation, KEY)
            seen = (state.z, state.x), carry.trust, action
            observation, state, *_ = env.step_batch(step_key, state, action, params)
            return (observation, state, carry), seen

        return jax.lax.scan(step, (observation, state, carry), jax.random.split(key, 20))[1]

    truth, believed, actions = play(jax.random.key(1))
    np.testing.assert_allclose(believed, truth, atol=1e-5)
    assert set(np.unique(actions)) == {HAND_OVER, SLOW, ASK}


def test_the_trust_rule_takes_everybody_for_the_average_person():
    people = TrustQubit(phi0=[1.0, 2.0], a_pos=[0.5, 0.7], a_neg=[1.0, 1.2], gamma=[0.0, 0.5])
    _, params = make("TrustHandover-v0", people=people, fail_cost=3.0, slow_factor=0.25)
    rule = TrustRule.for_params(params)
    average = as_population(TrustQubit(1.5, 0.6, 1.1, 0.25))
    jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, rtol=1e-6), rule.people, average)
    assert {name: float(getattr(rule, name)) for name in PRICES} == {
        name: pytest.approx(float(getattr(params, name))) for name in PRICES
    }
    assert (rule.fail_cost, rule.slow_factor) == (3.0, 0.25)


# --- the question planner against the published one --------------------------------------------------


def planner_of(person, ask_cost, error_cost, repeat=False, max_questions=20):
    return QuestionPlanner(
        people=as_population(person),
        ask_cost=jnp.asarray(ask_cost, float),
        error_cost=jnp.asarray(error_cost, float),
        max_questions=jnp.int32(max_questions),
        repeat=repeat,
    )


@jax.jit
def hear(planner, carry, question, yes):
    """What the planner does, and remembers, after the answer to a question that it was made to ask."""
    # The answers to the other questions are the opposite, so that looking at the wrong one is noticed.
    other = jnp.where(yes, -1.0, 1.0)
    observation = jnp.where(jnp.arange(3) == question, -other, other)
    action, carry = planner.act(carry.replace(action=question), observation, KEY)
    posterior = carry.likelihoods / carry.likelihoods.sum()
    return action, carry, posterior, planner.value_of_information(carry.beliefs, posterior)


def after_history(planner, history):
    carry = planner.init(None)
    result = hear(planner, carry, jnp.int32(-1), jnp.bool_(False))
    for question, answer in history:
        result = hear(planner, result[1], jnp.int32(question), jnp.bool_(answer))
    return result


@pytest.mark.parametrize(
    ("model", "setting"),
    [("aware", "a"), ("aware", "b"), ("aware", "repeat"), ("order_blind", "a"), ("order_blind", "b")],
)
def test_the_planner_believes_values_and_decides_as_published(precision, golden, model, setting):
    block = golden("planner")[model][setting]
    person = default_domain() if model == "aware" else default_domain().order_free()
    planner = planner_of(person, **block["settings"])
    compared, kinds = 0, set()
    for row in block["rows"]:
        if row["impossible"]:
            continue
        action, _, posterior, value = after_history(planner, row["history"])
        # Twice normalised: the posterior of an unlikely history loses a digit.
        tolerance = 10 * precision.tolerance
        np.testing.assert_allclose(posterior, row["posterior"], atol=tolerance, err_msg=str(row))
        np.testing.assert_allclose(value, row["voi"], atol=tolerance, err_msg=str(row))
        kind, index, _ = row["decide"]
        best = np.sort(row["posterior"] if kind == "act" else row["voi"])
        if best[-1] - best[-2] > 1e-6:
            assert action == index + 3 * (kind == "act"), row
            compared, kinds = compared + 1, kinds | {kind}
    assert compared >= 30
    assert kinds == {"ask", "act"}


@pytest.mark.parametrize("answer", ["yes", "no"])
@pytest.mark.parametrize("repeat", [False, True])
def test_the_planner_acts_after_one_question_as_published(golden, answer, repeat):
    published = golden("planner")["run"][f"always_{answer}_repeat_{repeat}"]
    person = default_domain()
    planner = planner_of(person, 0.05, 5.0, repeat)
    action, carry, *_ = after_history(planner, [])
    history = []
    while action < 3:
        history.append([person.questions[action], int(answer == "yes")])
        action, carry, posterior, _ = hear(planner, carry, action, jnp.bool_(answer == "yes"))
    assert history == published["history"]
    assert person.hypotheses[action - 3] == published["choice"]
    assert posterior[action - 3] == pytest.approx(published["probability"], abs=1e-5)


@pytest.mark.parametrize(
    ("repeat", "max_questions", "asked"), [(True, 6, 5), (True, 2, 1), (True, 1, 0), (False, 20, 3)]
)
def test_the_planner_acts_before_its_questions_are_used_up(repeat, max_questions, asked):
    # Paid for asking, the planner asks as long as it may.
    planner = planner_of(default_domain(), -1.0, 5.0, repeat, max_questions)
    action, carry, *_ = after_history(planner, [])
    questions = []
    while action < 3:
        questions.append(int(action))
        action, carry, *_ = hear(planner, carry, action, jnp.bool_(False))
    assert len(questions) == asked
    assert repeat or len(set(questions)) == 3, "no question is asked twice"


def test_an_impossible_history_leaves_the_planner_able_to_act():
    planner = planner_of(default_domain(), 0.3, 5.0)
    action, carry, *_ = after_history(planner, [[0, 1], [0, 0]])
    assert 0 <= action < 6
    np.testing.assert_allclose(carry.likelihoods, 0.0, atol=1e-6)
    # Where nothing is possible, everything is: the planner begins as it would have at the start.
    first, carry, *_ = after_history(planner, [])
    nothing = carry.replace(likelihoods=jnp.zeros(3), action=jnp.int32(-1))
    assert first == 2
    assert hear(planner, nothing, jnp.int32(-1), jnp.bool_(False))[0] == first


def test_the_planner_knows_the_costs_and_takes_everybody_for_the_first_person(random_answering):
    people = random_answering(0, people=4, dimension=3)
    _, params = make("Clarification-v0", people=people, error_cost=4.0, success_reward=1.5, max_questions=3)
    planner = QuestionPlanner.for_params(params, repeat=True)
    jax.tree.map(np.testing.assert_array_equal, planner.people, people[:1])
    assert float(planner.error_cost) == 5.5, "being wrong also forgoes the reward for being right"
    assert float(planner.ask_cost) == pytest.approx(0.3)
    assert (int(planner.max_questions), planner.repeat) == (3, True)


# --- mean returns ------------------------------------------------------------------------------------


@functools.cache
def yardstick_returns(env_id):
    env, params = make(env_id)
    policies = yardsticks(params, env.action_space(params).n)
    return {
        name: evaluate(policy, env, params, jax.random.key(7), 20_000) for name, policy in policies.items()
    }


@pytest.mark.parametrize(
    ("env_id", "name", "published"),
    [
        ("TrustHandover-v0", "published trust rule", -29.1553609107),
        ("TrustHandover-v0", "random", -37.7611),
        ("TrustHandover-v0", "always hand over", -86.4560796005),
        ("TrustHandover-v0", "always slow", -53.1581249420),
        ("TrustHandover-v0", "always ask", -10.0),
        ("TrustHandover-v0", "always wait", -6.0),
        ("Clarification-v0", "question planner", -1.6107759820),
        ("Clarification-v0", "random", -3.3265625),
        ("Clarification-v0", "act on 'red cup' at once", -3.0),
        ("Clarification-v0", "act on 'blue cup' at once", -3.0),
        ("Clarification-v0", "act on 'red bowl' at once", -3.0),
        ("Clarification-v0", "always ask 'red?'", -6 * 0.3 - 5),
        ("Clarification-v0", "always ask 'cup?'", -6 * 0.3 - 5),
        ("Clarification-v0", "always ask 'left?'", -6 * 0.3 - 5),
    ],
)
def test_yardsticks_earn_what_is_published(env_id, name, published):
    returns = yardstick_returns(env_id)[name]
    assert abs(float(returns.mean) - published) < 4 * float(returns.standard_error) + 1e-5
    assert float(returns.standard_error) < 0.25


def test_there_is_a_yardstick_for_every_action():
    assert list(yardstick_returns("TrustHandover-v0")) == [
        "published trust rule",
        "random",
        "always hand over",
        "always slow",
        "always ask",
        "always wait",
    ]
    assert len(yardstick_returns("Clarification-v0")) == 2 + 6


def test_uniform_random_draws_every_action_equally_often():
    policy = UniformRandom(5)
    keys = jax.random.split(KEY, 50_000)
    actions, _ = jax.vmap(lambda key: policy.act((), jnp.zeros(3), key))(keys)
    counts = np.bincount(actions, minlength=5)
    assert len(counts) == 5
    assert np.abs(counts - 10_000).max() < 4.5 * np.sqrt(50_000 * 0.2 * 0.8)


def test_constant_policies_differ_by_a_leaf_and_not_by_their_structure():
    policies = Constant(jnp.arange(4))
    actions = jax.vmap(lambda policy: policy.act((), jnp.zeros(3), KEY)[0])(policies)
    np.testing.assert_array_equal(actions, [0, 1, 2, 3])


# --- learned policies ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned():
    """A recurrent policy, its weights large enough that it prefers something."""
    network = ActorCritic(num_actions=4, kind="gru", features=6)
    shape = (jnp.zeros((1, 6)), jnp.zeros((1, 1, 3)), jnp.zeros((1, 1), bool))
    weights = jax.jit(network.init)(jax.random.key(4), *shape)
    logits = (6, 4)
    return LearnedPolicy(jax.tree.map(lambda w: (200.0 if w.shape == logits else 2.0) * w, weights), network)


@jax.jit
def act_all(policy, observations, keys):
    """Actions of one lane over a sequence of observations, the carry passed on."""

    def step(carry, now):
        action, carry = policy.act(carry, *now)
        return carry, action

    return jax.lax.scan(step, policy.init(None), (observations, keys))[1]


def test_a_greedy_policy_takes_the_most_probable_action_and_remembers(learned):
    observations = jax.random.normal(KEY, (40, 3))
    actions = act_all(learned, observations, jax.random.split(KEY, 40))
    assert actions.dtype == jnp.int32
    network = learned.network
    _, logits, _ = jax.jit(network.apply)(
        learned.variables, network.initial_hidden(1), observations[:, None], jnp.zeros((40, 1), bool)
    )
    np.testing.assert_array_equal(actions, logits[:, 0].argmax(-1))
    assert len(set(actions.tolist())) > 1
    others = act_all(learned, observations, jax.random.split(jax.random.key(5), 40))
    np.testing.assert_array_equal(actions, others, "a greedy policy does not draw")
    forgetful = jax.jit(jax.vmap(lambda o: learned.act(learned.init(None), o, KEY)[0]))(observations)
    assert forgetful.tolist() != actions.tolist(), "memory should matter"


def test_a_policy_that_is_not_greedy_draws_from_its_probabilities(learned):
    policy = learned.replace(greedy=False)
    observation = jnp.array([0.3, -0.2, 0.1])
    network, hidden = learned.network, learned.network.initial_hidden(1)
    _, logits, _ = network.apply(learned.variables, hidden, observation[None, None], jnp.zeros((1, 1), bool))
    probabilities = np.asarray(jax.nn.softmax(logits[0, 0]))
    assert probabilities.max() < 0.95
    n = 20_000
    keys = jax.random.split(jax.random.key(6), n)
    draw = jax.jit(jax.vmap(lambda key: policy.act(policy.init(None), observation, key)[0]))
    counts = np.bincount(draw(keys), minlength=4)
    error = np.sqrt(n * probabilities * (1 - probabilities))
    assert np.all(np.abs(counts - n * probabilities) < 4.5 * error + 1)


# --- the exact optimum of tests/exact.py, which judges the learned policies ---------------------------

OPTIMA = [
    *(-1.62192, -1.27956, -2.07278, -1.44769, -2.44640),
    *(-1.74472, -2.18581, -1.61078, -1.14865, -1.79021),
]


def test_the_exact_optima_are_the_published_ones():
    with jax.enable_x64(True):
        got = [clarification_optimum(default_domain(seed), ask_cost=0.3) for seed in range(10)]
    np.testing.assert_allclose(got, OPTIMA, atol=1e-5)
    assert got[7] == pytest.approx(-1.6107759820, abs=1e-9)


@pytest.mark.parametrize(("max_questions", "value"), [(1, -3.0), (2, -1.6107759820), (4, -1.6107759820)])
def test_the_exact_optimum_depends_on_the_number_of_questions_as_published(max_questions, value):
    with jax.enable_x64(True):
        person = default_domain()
    got = clarification_optimum(person, ask_cost=0.3, max_questions=max_questions)
    assert got == pytest.approx(value, abs=1e-9)
