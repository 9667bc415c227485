"""People: pytrees that are checked when built, stacked into populations, and differentiable."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qmind_jax.people import (
    BetaTrust,
    IndependentAnswers,
    MarkovTrust,
    ProjectiveAnswers,
    TrustQubit,
    as_population,
    default_domain,
    handover_population,
    hard_domain,
    mix,
    stack,
)
from qmind_jax.people.trust import p_trust
from qmind_jax.quantum import is_projector, projector
from qmind_jax.registry import REGISTRY

FAMILIES = {"qubit": TrustQubit, "markov": MarkovTrust, "beta": BetaTrust}
HARD_TABLE = [0.937872, 0.118508, 0.235209]
X, Z = np.full((2, 2), 0.5), np.diag([1.0, 0.0])


def leaves_equal(left, right):
    """Equal up to the last bit, which the constructor may change when it normalises states again."""
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-7)


@pytest.fixture(params=["qubit", "markov", "beta", "mixed", "projective", "independent"])
def population(request, random_answering):
    if request.param in FAMILIES:
        values = np.random.default_rng(0).uniform(0.1, 0.9, (len(FAMILIES[request.param]._person_ndims), 4))
        return FAMILIES[request.param](*values)
    if request.param == "mixed":
        return mix([TrustQubit(), MarkovTrust(0.1), BetaTrust(0.2), TrustQubit(1.0)])
    return random_answering(0, people=4, dimension=3 if request.param == "projective" else 0)


# --- pytrees and populations ------------------------------------------------------------------------


def test_a_population_is_its_people_stacked(population):
    assert population.is_population
    assert len(population) == 4
    people = list(population)
    assert len(people) == 4
    assert not any(person.is_population for person in people)
    leaves_equal(stack(people), population)
    leaves_equal(as_population(people), population)
    leaves_equal(as_population(population), population)
    leaves_equal(stack([population[:1], population[1:]]), population)
    leaves_equal(stack([people[0], population[1:]]), population)
    leaves_equal(jax.tree.map(lambda x: x[2], population), people[2])
    leaves_equal(population[-1], people[3])
    leaves_equal(population[np.array([3, 1])], stack([people[3], people[1]]))
    leaves_equal(as_population(people[1]), population[1:2])


@pytest.mark.parametrize("index", [4, -5, 99])
def test_a_person_who_is_not_there_cannot_be_taken(population, index):
    with pytest.raises(IndexError, match=f"person {index} of a population of 4"):
        population[index]


def test_one_person_has_no_length(population):
    person = population[0]
    for use in (len, iter, lambda p: p[0]):
        with pytest.raises(TypeError, match=r"has no length; stack\(\[...\]\)"):
            use(person)


def test_people_pass_through_jax(population):
    doubled = jax.jit(lambda people: jax.tree.map(lambda x: 2 * x, people))(population)
    assert type(doubled) is type(population)
    leaves_equal(doubled, jax.tree.map(lambda x: 2 * x, population))
    axes = jax.tree.map(lambda x: 0, population)
    sums = jax.vmap(lambda person: sum(jnp.sum(x) for x in jax.tree.leaves(person)), (axes,))(population)
    expected = [sum(np.sum(x) for x in jax.tree.leaves(person)) for person in population]
    np.testing.assert_allclose(sums, expected, rtol=1e-5)
    abstract = jax.eval_shape(lambda people: people[0], population)
    assert [leaf.shape for leaf in jax.tree.leaves(abstract)] == [
        leaf.shape[1:] for leaf in jax.tree.leaves(population)
    ]


def test_people_survive_pickling_and_copying(population):
    for other in (pickle.loads(pickle.dumps(population)), copy.deepcopy(population)):
        leaves_equal(other, population)
        assert type(other) is type(population)
        assert repr(other) == repr(population)
    assert "4 people" in repr(population)
    assert "one person" in repr(population[0])


def test_replace_checks_like_the_constructor():
    assert TrustQubit().replace(gamma=0.5).gamma == 0.5
    with pytest.raises(ValueError, match=r"gamma must lie in \[0, 1\], got 2"):
        TrustQubit().replace(gamma=2.0)
    with pytest.raises(TypeError, match="phi"):
        TrustQubit().replace(phi=0.1)


def test_people_have_the_precision_that_is_switched_on(precision):
    for person in (TrustQubit(), MarkovTrust(p0=1), BetaTrust(), default_domain(), hard_domain()):
        assert {str(leaf.dtype) for leaf in jax.tree.leaves(person)} == {precision.name}


def test_labels_are_names_or_numbered():
    people = IndependentAnswers([[0.1, 0.2, 0.3]])
    assert people.hypotheses == ("h0",)
    assert people.questions == ("q0", "q1", "q2")
    named = IndependentAnswers([[0.1, 0.2]], ["cup"], ["red?", "left?"])
    assert named.hypotheses == ("cup",)
    assert named.questions == ("red?", "left?")
    assert named.replace(questions=np.array(["red?", "left?"])).questions == ("red?", "left?")
    with pytest.raises(TypeError, match="questions must be a sequence of labels, got the single text 'ab'"):
        named.replace(questions="ab")
    person = ProjectiveAnswers.from_dicts({1: [1, 0], "b": [3, 4]}, {"q": Z})
    assert person.hypotheses == ("1", "b")
    np.testing.assert_allclose(person.states, [[1, 0], [0.6, 0.8]], rtol=1e-6)


def test_complex_and_real_parts_are_promoted_together():
    for states, question in (([[1, 1j]], Z), ([[1.0, 0.0]], np.array([[0.5, -0.5j], [0.5j, 0.5]]))):
        person = ProjectiveAnswers(states, [question])
        assert person.states.dtype == person.projectors.dtype == jnp.complex64
        np.testing.assert_allclose(np.linalg.norm(person.states, axis=-1), 1.0, rtol=1e-6)


@given(st.floats(1e-11, 1e37))
def test_states_of_any_length_are_normalised(length):
    person = ProjectiveAnswers([[3.0 * length, -4.0 * length]], [Z])
    np.testing.assert_allclose(person.states, [[0.6, -0.8]], rtol=1e-5)


def test_the_order_free_twin_answers_as_if_asked_first(random_answering):
    people = random_answering(1, people=3, dimension=4, ranks=(1, 2), hypotheses=2, questions=3)
    twin = people.order_free()
    assert (len(twin), twin.hypotheses, twin.questions) == (3, people.hypotheses, people.questions)
    for i in range(3):
        leaves_equal(people[i].order_free(), twin[i])
        for h in range(2):
            belief = people.initial_belief(i, h)
            p_yes = [people.p_yes(belief, i, q) for q in range(3)]
            np.testing.assert_allclose(twin.table[i, h], p_yes, atol=1e-6)


# --- published people -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 22])
def test_the_hard_domain_has_three_questions_of_rank_two(seed):
    person = hard_domain(seed)
    assert (person.num_hypotheses, person.num_questions, person.states.shape[-1]) == (3, 3, 4)
    np.testing.assert_allclose(np.trace(person.projectors, axis1=-2, axis2=-1), 2.0, rtol=1e-5)
    assert is_projector(person.projectors)
    rng = np.random.default_rng(seed)
    states, planes = rng.normal(size=(3, 4)), rng.normal(size=(3, 2, 4))
    expected = [
        [np.sum((projector(plane) @ state) ** 2) / np.sum(state**2) for plane in planes] for state in states
    ]
    with jax.enable_x64(True):
        np.testing.assert_allclose(hard_domain(seed).order_free().table, expected, atol=1e-10)


def test_the_hard_environment_never_changes_its_people():
    """The numbers belong to an environment id, and with them every published score."""
    leaves_equal(REGISTRY["ClarificationHard-v0"].params().people, as_population(hard_domain(22)))
    np.testing.assert_allclose(
        hard_domain(22).order_free().table[0], HARD_TABLE, atol=1e-5, err_msg="the domain of seed 22"
    )


@pytest.mark.parametrize(
    ("family", "low", "high"),
    [("qubit", (0.3, 0.4, 0.8, 0.1), (2.6, 1.2, 1.6, 0.5)), ("markov", (0.2, 0.1, 0.2), (0.9, 0.5, 0.6))],
)
def test_the_published_populations_fill_their_ranges(family, low, high):
    people = handover_population(jax.random.key(0), 2000, family)
    assert type(people) is FAMILIES[family]
    assert len(people) == 2000
    for leaf, lowest, highest in zip(jax.tree.leaves(people), low, high, strict=True):
        width = highest - lowest
        assert lowest <= leaf.min() < lowest + 0.01 * width
        assert highest - 0.01 * width < leaf.max() <= highest
        # The standard error of the mean of 2000 uniform numbers is 0.0065 of the width.
        np.testing.assert_allclose(leaf.mean(), (lowest + highest) / 2, atol=0.035 * width)
    columns = np.corrcoef(np.stack(jax.tree.leaves(people)))
    assert np.abs(columns - np.eye(len(low))).max() < 5 / np.sqrt(2000)


def test_published_populations_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match=r"family must be one of \['markov', 'qubit'\], got 'beta'"):
        handover_population(jax.random.key(0), 3, "beta")
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        handover_population(jax.random.key(0), 0)


# --- bad input --------------------------------------------------------------------------------------

OUT_OF_RANGE = [
    (TrustQubit, "gamma", 2.0),
    (TrustQubit, "gamma", -0.25),
    (TrustQubit, "a_pos", 0.0),
    (TrustQubit, "a_pos", 3.5),
    (TrustQubit, "a_neg", -1.25),
    (TrustQubit, "a_neg", 3.25),
    (MarkovTrust, "p0", 1.5),
    (MarkovTrust, "up", -0.5),
    (MarkovTrust, "down", 1.25),
    (BetaTrust, "p0", -1.0),
    (BetaTrust, "n0", 0.0),
    (BetaTrust, "w_s", -0.25),
    (BetaTrust, "w_f", -2.0),
    (IndependentAnswers, "table", 1.25),
    (IndependentAnswers, "table", -0.5),
]


def with_field(family, name, value):
    """One person of a family with one field (one entry of it, for a table) set to a value."""
    if family is IndependentAnswers:
        return family([[0.5, 0.5], [0.5, value]])
    return family(**{name: value})


@pytest.mark.parametrize(("family", "name", "value"), OUT_OF_RANGE)
def test_a_value_out_of_range_is_refused_by_name_and_value(family, name, value):
    with pytest.raises(ValueError, match=rf"{family.__name__}: {name} must lie in .*, got {value:g}"):
        with_field(family, name, value)


@pytest.mark.parametrize("name", ["n0", "w_s", "w_f"])
def test_experience_that_could_overflow_is_refused(name):
    with pytest.raises(ValueError, match=rf"BetaTrust: {name} must lie in \[0, 1e\+30\], got 2"):
        BetaTrust([0.5], **{other: [0.5] for other in ("n0", "w_s", "w_f")} | {name: [2e30]})


def test_the_most_experience_is_counted_without_overflow():
    """Four successes of six and no other experience worth mentioning: two thirds."""
    cells = BetaTrust(1.0, 1.0, 1e30, 1e30).predict()["final"]
    np.testing.assert_allclose(cells, [2.0 / 3.0, 1.0 / 3.0], rtol=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("family", "name"),
    [(f, n) for f in FAMILIES.values() for n in f._person_ndims] + [(IndependentAnswers, "table")],
)
def test_a_value_that_is_not_finite_is_refused_by_name(family, name, value):
    with pytest.raises(ValueError, match=rf"(?s){family.__name__}: {name} must be finite, got .*{value}"):
        with_field(family, name, value)


@given(st.sampled_from([(f, n) for f, n, _ in OUT_OF_RANGE]), st.floats(-1e6, 1e6), st.integers(0, 5))
def test_values_are_accepted_exactly_in_their_range(field, value, position):
    """One bad person spoils a population, wherever it stands."""
    family, name = field
    value = float(np.float32(value))
    good = {
        "gamma": 0 <= value <= 1,
        "a_pos": 0 < value < np.pi,
        "a_neg": 0 < value < np.pi,
        "n0": value > 0,
        "w_s": value >= 0,
        "w_f": value >= 0,
    }.get(name, 0 <= value <= 1)
    if family is IndependentAnswers:
        columns = {"table": np.full((6, 1, 1), 0.5)}
    else:
        columns = {field: np.full(6, getattr(family, field)) for field in family._person_ndims}
    columns[name][position] = value
    if good:
        assert len(family(**columns)) == 6
    else:
        with pytest.raises(ValueError, match=f"{name} must lie in"):
            family(**columns)


@given(hnp.arrays(float, (2, 2), elements=st.floats(-2, 2)))
def test_matrices_that_are_no_projectors_are_refused(matrix):
    people = {"states": np.ones((1, 2)), "questions": ("red?",)}
    if is_projector(matrix.astype(np.float32)):
        assert ProjectiveAnswers(projectors=matrix[None], **people).num_questions == 1
    else:
        with pytest.raises(
            ValueError, match=r"projectors: the matrix of question 'red\?' is not a projector"
        ):
            ProjectiveAnswers(projectors=matrix[None], **people)


@pytest.mark.parametrize(
    ("matrix", "shown"),
    [([[0.5, 0.2], [0.2, 0.9]], r"0\.9"), (2 * np.eye(2), r"2\."), ([[0, 1], [0, 1]], "1")],
)
def test_the_matrix_that_is_no_projector_is_shown(matrix, shown):
    with pytest.raises(ValueError, match=rf"(?s)question 1 is not a projector.*{shown}.*projector\(rows\)"):
        ProjectiveAnswers(np.ones((1, 2)), [np.eye(2), matrix])


BAD_SHAPES = [
    (lambda: ProjectiveAnswers(np.ones((1, 3)), [Z]), r"projectors must be 3 x 3 .* got shape \(1, 2, 2\)"),
    (lambda: ProjectiveAnswers(np.ones(2), [Z]), r"ProjectiveAnswers.*'states': \(2,\)"),
    (lambda: ProjectiveAnswers(np.ones((1, 2)), Z), r"ProjectiveAnswers.*'projectors': \(2, 2\)"),
    (lambda: ProjectiveAnswers(np.ones((3, 1, 2)), [Z]), r"ProjectiveAnswers.*'states': \(3, 1, 2\)"),
    (
        lambda: ProjectiveAnswers(np.ones((3, 1, 2)), np.tile(Z, (2, 1, 1, 1))),
        r"number of people.*'states': \(3, 1, 2\)",
    ),
    (
        lambda: ProjectiveAnswers(np.ones((2, 2, 1, 2)), np.tile(Z, (2, 2, 1, 1, 1))),
        r"ProjectiveAnswers.*states",
    ),
    (lambda: ProjectiveAnswers(np.ones((1, 2)), np.ones((1, 2, 3))), r"projectors must be 2 x 2"),
    (lambda: ProjectiveAnswers([[1.0, 0.0], [0.0, 0.0]], [Z]), "states must not contain a zero vector"),
    (lambda: ProjectiveAnswers([[np.nan, 1.0]], [Z]), "ProjectiveAnswers: states must be finite"),
    (lambda: IndependentAnswers([0.5, 0.5]), r"IndependentAnswers.*'table': \(2,\)"),
    (lambda: TrustQubit(phi0=[1.0, 2.0]), r"TrustQubit.*'phi0': \(2,\)"),
    (lambda: MarkovTrust([0.1, 0.2], [0.1, 0.2], [0.1, 0.2, 0.3]), r"number of people.*'down': \(3,\)"),
    (
        lambda: IndependentAnswers([[0.5]], ["a", "b"]),
        r"hypotheses must be 1 different labels, got \['a', 'b'\]",
    ),
    (
        lambda: IndependentAnswers([[0.5, 0.5]], ["a"], ["q", "q"]),
        r"questions must be 2 different labels, got \['q', 'q'\]",
    ),
    (
        lambda: ProjectiveAnswers.from_dicts({}, {"q": Z}),
        "states and projectors must not be empty, got 0 hyp",
    ),
    (
        lambda: ProjectiveAnswers.from_dicts({"h": [1, 0]}, {}),
        "must not be empty, got 1 hypotheses and 0 que",
    ),
    (
        lambda: ProjectiveAnswers.from_dicts({"a": [1, 0], "b": [1, 0, 0]}, {"q": Z}),
        r"states must all have one shape, got .*'b': \(3,\)",
    ),
    (
        lambda: ProjectiveAnswers.from_dicts({"a": [1, 0]}, {"q": Z, "r": np.eye(3)}),
        r"projectors must all have one shape, got .*'r': \(3, 3\)",
    ),
    (lambda: ProjectiveAnswers(np.ones((0, 2)), [Z]), "hypotheses must be at least 1"),
    (lambda: ProjectiveAnswers(np.ones((1, 2)), np.ones((0, 2, 2))), "questions must be at least 1"),
]


@pytest.mark.parametrize("case", range(len(BAD_SHAPES)))
def test_shapes_and_labels_that_do_not_fit_are_refused_by_name(case):
    make, message = BAD_SHAPES[case]
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrustQubit(phi0="north"), "phi0 must be numbers, got 'north'"),
        (lambda: MarkovTrust(up=None), "up must be numbers, got None"),
        (lambda: IndependentAnswers([["yes"]]), "table must be numbers"),
        (lambda: TrustQubit(phi=0.1), "phi"),
        (lambda: BetaTrust(weight=0.1), "weight"),
        (lambda: TrustQubit(phi0=1j), "phi0 must be real"),
        (lambda: IndependentAnswers([[0.5j]]), "table must be real"),
    ],
)
def test_what_is_no_number_or_no_field_is_refused_by_name(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_only_people_who_fit_together_make_a_population():
    one = IndependentAnswers([[0.5, 0.5]], ["cup"], ["red?", "left?"])
    with pytest.raises(ValueError, match=r"people\[1\] has other questions .*'right\?'.* against .*'left\?'"):
        stack([one, IndependentAnswers([[0.5, 0.5]], ["cup"], ["red?", "right?"])])
    with pytest.raises(ValueError, match=r"people\[2\] has other hypotheses .*'bowl'.* against .*'cup'"):
        stack([one, one, IndependentAnswers([[0.5, 0.5]], ["bowl"], ["red?", "left?"])])
    with pytest.raises(ValueError, match=r"people\[1\] has other questions"):
        as_population([one, IndependentAnswers([[0.5]], ["cup"], ["red?"])])
    with pytest.raises(TypeError, match=r"people\[1\] is a MarkovTrust but people\[0\] is a TrustQubit"):
        stack([TrustQubit(), MarkovTrust()])
    with pytest.raises(ValueError, match=r"differ in the shape of states: .*\(1, 2\).*\(1, 3\)"):
        stack([ProjectiveAnswers(np.ones((1, 2)), [Z]), ProjectiveAnswers(np.ones((1, 3)), [np.eye(3)])])
    with pytest.raises(ValueError, match="at least one person, got an empty sequence"):
        stack([])
    with pytest.raises(TypeError, match="got int: 3"):
        stack([3])
    for nobody in (3, None, "people", {"people": 1}):
        with pytest.raises(TypeError, match="people must be a population, a person or a sequence"):
            as_population(nobody)


def test_traced_values_are_let_through_the_checks():
    """Under jit there is nothing to look at; gradients step outside ranges and come back."""
    trust = jax.jit(lambda gamma: p_trust(as_population(TrustQubit(gamma=gamma)).initial_trust(0)))
    np.testing.assert_allclose(trust(2.0), np.cos(0.8) ** 2, rtol=1e-6)


# --- gradients --------------------------------------------------------------------------------------

WORD = "SFWYSSWFS"


def trust_after(person, word):
    """Trust of one person after Success, Failure, Wait and the answers Yes and No."""
    people = jax.tree.map(lambda leaf: leaf[None], person)
    trust, index = people.initial_trust(0), 0
    for event in word:
        if event in "SF":
            trust = people.after_outcome(trust, index, jnp.bool_(event == "S"))
        elif event in "YN":
            trust = people.after_answer(trust, index, jnp.bool_(event == "Y"))
        else:
            trust = people.after_wait(trust, index)
    return p_trust(trust)


PEOPLE = {
    "qubit": lambda: TrustQubit(1.3, 0.7, 1.1, 0.25),
    "markov": lambda: MarkovTrust(0.6, 0.2, 0.35),
    "beta": lambda: BetaTrust(0.6, 1.4, 0.3, 0.5),
}


MATTERS = {"qubit": ("a_pos", "a_neg", "gamma"), "markov": ("up", "down"), "beta": ("p0", "n0", "w_s", "w_f")}


@pytest.mark.parametrize("family", PEOPLE)
@pytest.mark.parametrize("word", [WORD, "SFWSSFW"])
def test_gradients_of_trust_are_finite_differences(family, word):
    gradients = jax.jit(jax.grad(trust_after), static_argnums=1)
    single = gradients(PEOPLE[family](), word)
    with jax.enable_x64(True):
        person, step = PEOPLE[family](), 1e-5
        trust = jax.jit(trust_after, static_argnums=1)
        double = gradients(person, word)
        assert type(double) is type(person)
        for name in person._person_ndims:
            up, down = (person.replace(**{name: getattr(person, name) + d}) for d in (step, -step))
            expected = (trust(up, word) - trust(down, word)) / (2 * step)
            gradient = getattr(double, name)
            assert np.isfinite(gradient)
            np.testing.assert_allclose(gradient, expected, atol=1e-8, err_msg=name)
            np.testing.assert_allclose(getattr(single, name), expected, atol=1e-5, err_msg=name)
            if name in MATTERS[family]:
                assert abs(gradient) > 1e-4, f"{name} should matter after {word}"


def test_gradients_of_a_population_are_those_of_its_people(random_qubits):
    people = random_qubits(3)
    batched = jax.vmap(jax.grad(trust_after), (0, None))(people, "SFWS")
    for i, person in enumerate(people):
        one = jax.grad(trust_after)(person, "SFWS")
        for a, b in zip(jax.tree.leaves(batched), jax.tree.leaves(one), strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-5)


def likelihood(person, history):
    people = jax.tree.map(lambda leaf: leaf[None], person)
    belief, probability = people.initial_belief(0, 0), 1.0
    for question, yes in history:
        p_yes = people.p_yes(belief, 0, question)
        probability *= p_yes if yes else 1.0 - p_yes
        belief = people.after_answer(belief, 0, question, jnp.bool_(yes))
    return probability


def test_gradients_of_answers_are_finite_differences():
    with jax.enable_x64(True):
        rng, step = np.random.default_rng(0), 1e-6
        person = ProjectiveAnswers(
            rng.normal(size=(1, 3)), [projector(rng.normal(size=(r, 3))) for r in (1, 2)]
        )
        history = ((0, False), (1, True), (0, False))
        of_states = jax.jit(
            lambda states: likelihood(jax.tree.map(lambda x: x, person.replace(states=states)), history)
        )
        gradient = jax.grad(of_states)(person.states)
        for j in range(3):
            shift = step * np.eye(3)[j]
            expected = (of_states(person.states + shift) - of_states(person.states - shift)) / (2 * step)
            np.testing.assert_allclose(gradient[0, j], expected, atol=1e-7)
        assert np.abs(gradient).max() > 1e-3


def test_gradients_stay_finite_through_an_impossible_answer(precision):
    person = ProjectiveAnswers([[0.6, 0.8]], [Z, X])
    history = ((0, True), (0, False), (1, True), (1, False), (0, True))
    gradient = jax.jit(jax.grad(likelihood), static_argnums=1)(person, history)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_gradients_are_finite_at_the_ends_of_the_ranges(gamma):
    for person in (
        TrustQubit(0.0, gamma=gamma),
        TrustQubit(np.pi, gamma=gamma),
        MarkovTrust(gamma, gamma, gamma),
        BetaTrust(gamma, 1e-3, 0.0, 0.0),
    ):
        gradient = jax.grad(trust_after)(person, WORD)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)), person
