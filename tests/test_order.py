"""People asked two questions in either order: laws of the families, published tables, bad input."""

import re

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import (
    ORDER_TABLES,
    AnchoringOrder,
    BayesOrder,
    ProjectiveOrder,
    QuantumOrder,
    QuantumOrder4D,
    SaturatedOrder,
    order_table,
    proportions_to_counts,
    qq_statistic,
    qq_test,
    rates,
    stack,
)
from qmind_jax.quantum import projector

FAMILIES = (QuantumOrder, QuantumOrder4D, BayesOrder, AnchoringOrder, SaturatedOrder)


def random_people(family, n=20, **options):
    free = 1.5 * np.random.default_rng(3).normal(size=(n, len(family.free_names(**options))))
    return family.from_free(free, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_predictions_are_distributions_and_differentiable(family):
    people = random_people(family)
    for order, cells in jax.jit(lambda people: people.predict())(people).items():
        assert cells.shape == (20, 4)
        assert np.all(cells >= 0), order
        np.testing.assert_allclose(cells.sum(axis=1), 1.0, atol=1e-6)
    one_by_one = jax.vmap(lambda person: person.predict())(people)
    np.testing.assert_allclose(one_by_one["AB"], people.predict()["AB"], atol=1e-6)

    def log_first(free):
        return jnp.log(family.from_free(free).predict()["BA"][0])

    with jax.enable_x64(True):
        free = people[0].to_free()
        gradient = jax.grad(log_first)(free)
        step = 1e-6 * np.eye(len(free))
        expected = [(log_first(free + s) - log_first(free - s)) / 2e-6 for s in step]
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ranks", [structure["ranks"] for structure in QuantumOrder.structures])
def test_the_closed_form_is_the_projection_of_a_state(ranks, precision):
    person = QuantumOrder(a=0.7, b=-1.9, g=2.3, ranks=ranks)
    directions = [
        [np.cos(0.7), np.sin(0.7), 0.0],
        [np.cos(-1.9), np.sin(-1.9) * np.cos(2.3), np.sin(-1.9) * np.sin(2.3)],
    ]
    matrices = [
        projector(direction) if rank == 1 else np.eye(3) - projector(direction)
        for direction, rank in zip(directions, ranks, strict=True)
    ]
    projective = ProjectiveOrder([2.0, 0.0, 0.0], np.array(matrices))
    for order, cells in projective.predict().items():
        np.testing.assert_allclose(person.predict()[order], cells, atol=precision.tolerance)
    np.testing.assert_allclose(qq_statistic(person.predict()), 0.0, atol=precision.tolerance)


def test_projective_questions_asked_again():
    """The same question twice in a row is answered alike; after another question it may not be."""
    person = ProjectiveOrder([1.0, 1.0j, 0.5], [projector([1, 0, 0]), projector([1, 1, 0])])
    cells = person.predict({"again": "AA", "between": "ABA"})
    np.testing.assert_allclose(cells["again"][1:3], 0.0, atol=1e-7)
    assert cells["between"].shape == (8,)
    assert cells["between"][1] > 0.01
    np.testing.assert_allclose(cells["between"].sum(), 1.0, atol=1e-6)
    with pytest.raises(ValueError, match="knows the questions A to B"):
        person.predict({"third": "AC"})


def test_four_dimensions_without_rotation_are_order_free():
    joint = np.array([0.4, 0.1, 0.2, 0.3])
    amplitudes = np.sqrt(joint)
    t1 = np.arccos(amplitudes[0])
    t2 = np.arccos(amplitudes[1] / np.sin(t1))
    t3 = np.arctan2(amplitudes[3], amplitudes[2])
    free = QuantumOrder4D(t1, t2, t3, 0.0).predict()
    np.testing.assert_allclose(free["AB"], joint, atol=1e-6)
    np.testing.assert_allclose(free["BA"], joint[[0, 2, 1, 3]], atol=1e-6)
    # Frechet's largest joint probability of 0.5 and 0.6 is 0.5: a dependence of 0.1 / 0.2.
    bayes = BayesOrder(p_a=0.5, p_b=0.6, rho=0.5).predict()
    np.testing.assert_allclose(bayes["AB"], joint, atol=1e-6)
    np.testing.assert_allclose(bayes["BA"], joint[[0, 2, 1, 3]], atol=1e-6)


def test_rotated_questions_satisfy_the_qq_equality():
    for family in (QuantumOrder4D, QuantumOrder, BayesOrder):
        np.testing.assert_allclose(qq_statistic(random_people(family).predict()), 0.0, atol=1e-5)
    assert np.abs(qq_statistic(random_people(SaturatedOrder).predict())).max() > 0.1


def test_anchoring_weights_belong_to_the_second_question():
    person = AnchoringOrder(p_a=0.5, p_b=0.4, w_a=0.0, w_b=0.98)
    cells = person.predict()
    np.testing.assert_allclose(cells["BA"], [0.2, 0.2, 0.3, 0.3], atol=1e-6)
    assert cells["AB"][1] + cells["AB"][2] < 0.02
    tied = AnchoringOrder(w_a=-0.5, w_b=0.3, tied=True)
    assert float(tied.w_b) == -0.5
    assert tied.free_names(**tied.options) == ("p_a", "p_b", "w_a")
    again = AnchoringOrder.from_free(tied.to_free(), tied=True)
    np.testing.assert_allclose(again.w_b, -0.5, atol=1e-6)


def test_the_pooled_test_is_that_of_wang_and_busemeyer():
    counts = order_table("rose_jackson")
    assert round(qq_test(counts, pooled=True).z, 2) == 5.30
    assert round(qq_test(counts).z, 2) == 5.43
    np.testing.assert_allclose(rates(counts), [0.662, 0.483, 0.539, 0.356], atol=5e-4)
    assert len(ORDER_TABLES) == 6


@hypothesis.given(
    counts=st.lists(st.integers(0, 500), min_size=2, max_size=8).filter(sum), digits=st.integers(3, 6)
)
def test_proportions_give_back_their_counts(counts, digits):
    n = sum(counts)
    hypothesis.assume(n < 0.3 * 10**digits)
    shares = np.round(np.array(counts) / n, digits)
    np.testing.assert_array_equal(proportions_to_counts(shares, n), counts)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: QuantumOrder(ranks=(1, 3)), ValueError, "each 1 or 2"),
        (lambda: QuantumOrder(angle=1.0), TypeError, "unknown parameter 'angle'"),
        (lambda: BayesOrder(p_a=1.2), ValueError, re.escape("p_a must lie in [0, 1]")),
        (lambda: BayesOrder(roh=0.2), TypeError, "Did you mean 'rho'"),
        (lambda: AnchoringOrder(w_a=1.5), ValueError, "w_a must lie in"),
        (lambda: AnchoringOrder(tied=1), TypeError, "tied must be True or False"),
        (lambda: BayesOrder().predict({"x": "AA"}), ValueError, "must be 'AB' or 'BA'"),
        (lambda: BayesOrder().predict({}), ValueError, "at least one condition"),
        (lambda: BayesOrder().predict("AB"), TypeError, "must map names to conditions"),
        (lambda: ProjectiveOrder([0.0, 0.0], np.zeros((2, 2, 2))), ValueError, "zero vector"),
        (lambda: ProjectiveOrder([1.0, 0.0], np.full((2, 2, 2), 0.7)), ValueError, "idempotent"),
        (lambda: ProjectiveOrder([1.0, 0.0], np.eye(3)[None]), ValueError, "2 to 26 matrices of 2 x 2"),
        (lambda: order_table("clinton"), ValueError, "Did you mean 'clinton_gore'"),
        (lambda: proportions_to_counts([0.5, 0.2], 10), ValueError, "sum to 1"),
        (lambda: proportions_to_counts([1.5, -0.5], 10), ValueError, "at least 0"),
        (lambda: proportions_to_counts([0.5, 0.5], 0), ValueError, "n must be a whole number"),
        (lambda: qq_test({"AB": [1, 2, 3, 4]}), ValueError, "conditions 'AB' and 'BA'"),
        (lambda: qq_test({"AB": [1, 2, 3, 4], "BA": [0, 0, 0, 0]}), ValueError, "one person in each order"),
        (lambda: qq_test({"AB": [0.1, 0.2, 0.3, 0.4], "BA": [1, 0, 0, 0]}), ValueError, "proportions_to"),
        (lambda: rates({"AB": [1, 2, 3], "BA": [1, 2, 3]}), ValueError, "four cells"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_populations_of_one_structure():
    people = stack([QuantumOrder(a=0.1), QuantumOrder(a=0.2)])
    assert people.predict()["AB"].shape == (2, 4)
    with pytest.raises(ValueError, match="other ranks"):
        stack([QuantumOrder(), QuantumOrder(ranks=(1, 2))])


@pytest.mark.parametrize("cells", [[0, 0, 0, 0], [-1, 2, 3, 4], [np.nan, 2, 3, 4], [np.inf, 0, 0, 0]])
@pytest.mark.parametrize("statistic", [rates, qq_statistic])
def test_tables_that_are_no_counts_have_no_rates(statistic, cells):
    with pytest.raises(
        ValueError, match="the table must hold finite numbers of at least 0, not all 0, in 'AB'"
    ):
        statistic({"AB": cells, "BA": [1, 2, 3, 4]})


def test_pooled_the_most_unequal_orders_differ():
    extreme = {"AB": [5, 0, 0, 0], "BA": [0, 5, 0, 0]}
    assert qq_test(extreme).z == 0.0
    assert qq_test(extreme, pooled=True).p_value < 0.01
