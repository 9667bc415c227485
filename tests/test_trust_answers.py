"""What people who trust answer along the way."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import BetaTrust, MarkovTrust, TrustQubit, final_yes, question_effect, stack

EVENTS = (1, 0, 1, 1)


@pytest.mark.parametrize("family", [TrustQubit, MarkovTrust, BetaTrust])
def test_predictions_are_distributions_of_answers(family):
    people = stack([family(), family()])
    cells = people.predict({"course": (EVENTS, (0, 2, 3))})["course"]
    assert cells.shape == (2, 8)
    np.testing.assert_allclose(cells.sum(axis=1), 1.0, atol=1e-6)
    gradient = jax.grad(lambda person: jnp.log(person.predict()["final"][0]))(family())
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    assert np.shape(final_yes(people, EVENTS, (0, 3))) == (2,)


def test_only_a_coherent_qubit_is_changed_by_a_question():
    assert round(float(question_effect(TrustQubit(), (1, 1, 0, 1, 0, 1), 5, 2)), 4) == -0.0758
    for person in (MarkovTrust(), BetaTrust(), TrustQubit(gamma=1.0)):
        assert abs(question_effect(person, EVENTS, 3, 1)) < 1e-6


def test_the_order_of_queries_does_not_matter():
    person = TrustQubit()
    cells = person.predict({"rising": (EVENTS, (1, 3)), "falling": (EVENTS, [3, 1])})
    np.testing.assert_array_equal(cells["rising"], cells["falling"])


@hypothesis.given(query=st.integers(-20, 20))
def test_queries_outside_the_events_are_refused(query):
    hypothesis.assume(not 0 <= query < len(EVENTS))
    with pytest.raises(ValueError, match=rf"query {query} is outside the events"):
        TrustQubit().predict({"course": (EVENTS, (query,))})


@pytest.mark.parametrize(
    ("events", "queries", "message"),
    [
        ((), (0,), "events must be a non-empty sequence"),
        ((1, 2), (0,), "0 .failure. or 1"),
        ((1, np.nan), (0,), "0 .failure. or 1"),
        (EVENTS, (), "one or more different indices"),
        (EVENTS, (1, 1), "one or more different indices"),
        (EVENTS, (0.5,), "one or more different indices"),
    ],
)
def test_courses_that_are_none(events, queries, message):
    with pytest.raises(ValueError, match=message):
        MarkovTrust().predict({"course": (events, queries)})


def test_other_bad_input():
    with pytest.raises(TypeError, match="must be a pair"):
        MarkovTrust().predict({"course": (EVENTS,)})
    with pytest.raises(TypeError, match="collection of indices"):
        MarkovTrust().predict({"course": (EVENTS, 2)})
    with pytest.raises(ValueError, match="intermediate must lie before last"):
        question_effect(TrustQubit(), EVENTS, 1, 2)
    with pytest.raises(ValueError, match="outside the events"):
        question_effect(TrustQubit(), EVENTS, 4, 2)
