"""People as a Python sequence: length, indices, iteration, text, copies, and that they are no array."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import BetaTrust, IndependentAnswers, MarkovTrust, TrustQubit, hard_domain, mix, stack

MAKERS = {
    "qubit": lambda i: TrustQubit(0.5 + 0.1 * i),
    "markov": lambda i: MarkovTrust(0.1 + 0.1 * i),
    "beta": lambda i: BetaTrust(0.1 + 0.1 * i),
    "mixed": lambda i: mix([TrustQubit(), MarkovTrust(), BetaTrust()])[i % 3].replace(initial=0.1 + 0.1 * i),
    "projective": lambda i: hard_domain(i),
    "independent": lambda i: IndependentAnswers([[0.1 * i, 0.5], [0.5, 0.1]], ("a", "b"), ("c?", "d?")),
}
SIZE = 5


@pytest.fixture(params=list(MAKERS))
def everybody(request):
    """Some single people, and the population of them."""
    people = [MAKERS[request.param](i) for i in range(SIZE)]
    return people, stack(people)


def assert_same(got, expected):
    """Equal but for the last bit, as stacking normalises states once more."""
    assert type(got) is type(expected)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


# --- length, indices, iteration -------------------------------------------------------------------


def test_a_population_has_a_length_and_a_single_person_has_none(everybody):
    people, population = everybody
    assert len(population) == SIZE and population.is_population
    assert not people[0].is_population
    for use in (len, list, lambda person: person[0], lambda person: next(iter(person))):
        with pytest.raises(TypeError, match=r"has no length; stack\(\[...\]\) makes a population"):
            use(people[0])


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.array, jnp.int32])
def test_an_integer_of_any_kind_picks_one_person(everybody, kind):
    people, population = everybody
    for i in range(SIZE):
        assert_same(population[kind(i)], people[i])


@pytest.mark.parametrize("kind", [int, np.int64, np.array, jnp.int32])
def test_negative_integers_count_from_the_end(everybody, kind):
    people, population = everybody
    for i in range(-SIZE, 0):
        assert_same(population[kind(i)], people[i])


@pytest.mark.parametrize(
    "index", [slice(1, 4), slice(None), slice(None, None, -2), slice(3, 3), slice(-2, 99)]
)
def test_a_slice_is_a_population(everybody, index):
    people, population = everybody
    expected = people[index]
    assert len(population[index]) == len(expected) and population[index].is_population
    for got, person in zip(population[index], expected, strict=True):
        assert_same(got, person)


@pytest.mark.parametrize("kind", [list, np.array, jnp.array])
@pytest.mark.parametrize("index", [[2], [0, 0, -1, 3], [True, False, True, True, False]])
def test_a_list_or_array_of_indices_or_a_mask_is_a_population(everybody, index, kind):
    people, population = everybody
    chosen = np.arange(SIZE)[np.array(index)]
    assert_same(population[kind(index)], stack([people[i] for i in chosen]))


def test_no_indices_are_no_people(everybody):
    assert len(everybody[1][np.array([], int)]) == 0


@pytest.mark.parametrize(
    "kind", [int, np.int64, np.array, jnp.int32, lambda i: [0, i], lambda i: np.array([i])]
)
@pytest.mark.parametrize("index", [SIZE, 99, -SIZE - 1])
def test_there_is_nobody_beyond_the_last_or_before_the_first(index, kind):
    population = stack([TrustQubit()] * SIZE)
    with pytest.raises(IndexError, match=f"person {index} of a population of {SIZE}"):
        population[kind(index)]


@pytest.mark.parametrize("index", [np.uint8(200), np.array([0, 200], np.uint8)])
def test_indices_without_a_sign_do_not_wrap_around(index):
    with pytest.raises(IndexError, match="person 200 of a population of 5"):
        stack([TrustQubit()] * SIZE)[index]


@pytest.mark.parametrize("mask", [[True, False], [True] * (SIZE + 1), True, np.False_])
def test_a_mask_must_say_something_of_everybody(mask):
    with pytest.raises(IndexError, match=r"a mask of 5 people must have shape \(5,\)"):
        stack([TrustQubit()] * SIZE)[mask]


@pytest.mark.parametrize("index", [1.0, "0", None, ..., (0, 1), (0,), [[0, 1]], np.zeros((2, 2), int), [0.0]])
def test_an_index_of_another_kind_is_refused(everybody, index):
    with pytest.raises(TypeError, match="the index of people must be an integer, a slice, or"):
        everybody[1][index]


def test_iteration_gives_everybody_once_and_can_start_again(everybody):
    people, population = everybody
    for _ in range(2):
        for got, person in zip(population, people, strict=True):
            assert_same(got, person)
    assert_same(stack(population), population)


def test_indices_may_be_traced(everybody):
    people, population = everybody
    pick = jax.jit(lambda population, index: population[index])
    for i in (0, SIZE - 1, -1):
        assert_same(pick(population, i), people[i])
    assert_same(pick(population, jnp.array([3, 0])), stack([people[3], people[0]]))
    assert_same(jax.jit(lambda population: population[1])(population), people[1])
    with pytest.raises(IndexError):
        jax.jit(lambda population: population[SIZE])(population)


# --- no array -------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, np.array, jnp.asarray, jnp.array, np.mean, np.shape])
def test_people_are_no_array(everybody, convert):
    people, population = everybody
    for somebody in (people[0], population):
        with pytest.raises(TypeError, match="people are no array: take a field of them, such as people"):
            convert(somebody)
    with pytest.raises(TypeError, match="people are no array"):
        np.asarray(people)


def test_the_refusal_names_a_field_that_there_is(everybody):
    _, population = everybody
    with pytest.raises(TypeError) as caught:
        np.asarray(population)
    field = str(caught.value).split("people.")[1].split(",")[0]
    assert len(getattr(population, field)) == SIZE


# --- text and copies ------------------------------------------------------------------------------


def test_the_text_tells_family_number_and_fields(everybody):
    people, population = everybody
    assert repr(people[0]).startswith(f"{type(people[0]).__name__}(one person: ")
    assert repr(population).startswith(f"{type(population).__name__}({SIZE} people: ")


def test_people_have_a_text_under_every_transformation(everybody):
    people, population = everybody
    texts = []

    def look(somebody):
        texts.append(repr(somebody))
        return sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(somebody))

    jax.jit(look)(people[0])
    jax.jit(look)(population)
    jax.vmap(look)(population)
    jax.grad(look, allow_int=True)(people[0])
    texts.append(repr(jax.eval_shape(lambda somebody: somebody, population)))
    name = type(population).__name__
    for text, number in zip(texts, ("one", SIZE, "one", "one", SIZE), strict=True):
        assert text.startswith(f"{name}({number} ")


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda person: pickle.loads(pickle.dumps(person))]
)
def test_copies_are_the_same_people(everybody, duplicate):
    people, population = everybody
    for somebody in (people[0], population):
        assert_same(duplicate(somebody), somebody)
        assert repr(duplicate(somebody)) == repr(somebody)


def test_people_cannot_be_changed_in_place(everybody):
    people, population = everybody
    field = next(iter(type(population)._person_ndims))
    for somebody in (people[0], population):
        with pytest.raises(AttributeError):
            setattr(somebody, field, 0.0)
