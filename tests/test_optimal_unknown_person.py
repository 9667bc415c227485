"""Bayes-adaptive optima for a finite set of people: plain recursion, bounds, wrong input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.envs import ClarificationParams, TrustHandoverParams
from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit, handover_population, stack
from qmind_jax.policies.optimal import (
    clarification_optimum,
    clarification_unknown_person,
    handover_optimum,
    handover_unknown_person,
)

CHEAP = {"fail_cost": 2.0, "slow_cost": 0.2, "ask_cost": 0.2}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def clarification_value(states, projectors, ask_cost, left):
    """Plain recursion; states are unnormalised, ``(people, H, d)``, with everybody's prior in them."""
    weights = np.sum(np.abs(states) ** 2, axis=-1).sum(axis=0)
    best = 6.0 * weights.max() - 5.0 * weights.sum()
    for question in range(projectors.shape[1]):
        yes = np.einsum("pij,phj->phi", projectors[:, question], states)
        asked = -ask_cost * weights.sum()
        if left == 1:
            asked -= 5.0 * weights.sum()
        else:
            asked += clarification_value(yes, projectors, ask_cost, left - 1)
            asked += clarification_value(states - yes, projectors, ask_cost, left - 1)
        best = max(best, asked)
    return best


@pytest.mark.parametrize("ranks", [(1,), (2,)])
def test_asking_an_unknown_person_agrees_with_plain_recursion(random_answering, ranks):
    people = random_answering(1, people=3, dimension=4, ranks=ranks, questions=2)
    found = clarification_unknown_person(people, ClarificationParams(people, ask_cost=0.05, max_questions=4))
    states = np.asarray(people.states) / np.sqrt(9)
    expected = clarification_value(states, np.asarray(people.projectors), 0.05, 4)
    np.testing.assert_allclose(found.value, expected, atol=1e-12)
    assert found.best_single_plan < found.value < found.knows_person


def test_independent_answers_of_an_unknown_person_are_counted(random_answering):
    people = random_answering(2, people=3)
    params = ClarificationParams(people, ask_cost=0.05)
    found = clarification_unknown_person(people, params)
    assert found.best_single_plan <= found.value <= found.knows_person
    np.testing.assert_allclose(found.knows_person, clarification_optimum(people, params).value.mean())


def handover_value(people, weights, trusts, params, left):
    """Plain recursion; everybody's probability of what has happened is in ``weights``."""
    if left == 0:
        return 0.0
    p = np.array([(1 + float(z)) / 2 for z, _ in trusts])

    def later(chances, event):
        after = [event(person, trust) for person, trust in zip(people, trusts, strict=True)]
        return handover_value(people, weights * chances, after, params, left - 1)

    worked, failed = (lambda person, t, s=s: person.after_outcome(t, 0, s) for s in (True, False))
    yes, no = (lambda person, t, a=a: person.after_answer(t, 0, a) for a in (True, False))
    values = []
    for cost, p_fail in ((0.0, 1 - p), (params.slow_cost, (1 - p) * params.slow_factor)):
        reward = weights @ (1 - p_fail) - weights @ p_fail * params.fail_cost - cost * weights.sum()
        values.append(reward + later(1 - p_fail, worked) + later(p_fail, failed))
    values.append(-params.ask_cost * weights.sum() + later(p, yes) + later(1 - p, no))
    values.append(-params.wait_cost * weights.sum() + later(1.0, lambda person, t: person.after_wait(t, 0)))
    return max(values)


@pytest.mark.parametrize(
    "people",
    [
        TrustQubit([0.5, 2.2], [0.4, 1.1], [0.9, 1.5], [0.2, 0.4]),
        MarkovTrust([0.2, 0.9], [0.5, 0.1], [0.2, 0.6]),
        BetaTrust([0.2, 0.9], [0.5, 2.0], [0.2, 0.6], [0.5, 0.1]),
    ],
    ids=lambda people: type(people).__name__,
)
def test_handing_over_to_an_unknown_person_agrees_with_plain_recursion(people):
    people = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), people)
    params = TrustHandoverParams(people, n_steps=3, **CHEAP)
    found = handover_unknown_person(people, params)
    singles = [people[i : i + 1] for i in range(2)]
    trusts = [single.initial_trust(0) for single in singles]
    np.testing.assert_allclose(
        found.value, handover_value(singles, np.full(2, 0.5), trusts, params, 3), atol=1e-7
    )
    assert found.best_single_plan <= found.value <= found.knows_person


def test_the_bounds_around_an_unknown_person_to_hand_over_to():
    people = handover_population(jax.random.key(0), 4)
    params = TrustHandoverParams(people, n_steps=5, **CHEAP)
    found = handover_unknown_person(people, params)
    assert found.best_single_plan <= found.value < found.knows_person
    known = handover_optimum(people, params)
    assert abs(found.knows_person - known.value.mean()) <= known.error.mean() + 1e-12
    alone = handover_unknown_person(people[:1], params)
    np.testing.assert_allclose([alone.value, alone.best_single_plan], alone.knows_person)


def test_single_precision_is_close_for_many_histories():
    # Enough of them for XLA's sum of products over people in float32, which was wrong from 16,384 on.
    found = {}
    for enabled in (True, False):
        with jax.enable_x64(enabled):
            people = stack([TrustQubit(phi0=0.6), TrustQubit(gamma=1.0), TrustQubit(phi0=1.6)])
            found[enabled] = handover_unknown_person(people, TrustHandoverParams(people, n_steps=6, **CHEAP))
    for name in ("value", "knows_person", "best_single_plan"):
        np.testing.assert_allclose(getattr(found[False], name), getattr(found[True], name), atol=1e-4)


def test_a_tree_too_large_is_refused_with_its_size(random_answering):
    people = handover_population(jax.random.key(0), 4)
    with pytest.raises(ValueError, match=f"the tree has {sum(7**k for k in range(20))} histories"):
        handover_unknown_person(people, TrustHandoverParams(people))
    answering = random_answering(0, people=50, dimension=4, ranks=(2,))
    with pytest.raises(ValueError, match="hypotheses and 50 people at a time"):
        clarification_unknown_person(answering, ClarificationParams(answering), memory_limit=2**24)
