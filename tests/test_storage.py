"""People on disk: what is written is read again, and nothing else is taken for people."""

import json
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qmind_jax.people import (
    AnchoringOrder,
    BayesOrder,
    BetaTrust,
    IndependentAnswers,
    MarkovTrust,
    MarkovWalk,
    OpenSystemWalk,
    ProjectiveOrder,
    QuantumOrder,
    QuantumOrder4D,
    QuantumWalk,
    SaturatedOrder,
    TrustQubit,
    default_domain,
    mix,
)
from qmind_jax.people.population import as_population
from qmind_jax.people.storage import load_people, save_people
from qmind_jax.people.trust import TrustingPerson
from qmind_jax.people.variation import vary_states


@pytest.fixture(params=["one person", "population"])
def everybody(request, random_answering, random_qubits):
    """Somebody of every family, by name."""
    many = request.param == "population"
    answering = {
        "real": random_answering(0, people=3, dimension=4, ranks=(1, 2)),
        "complex": random_answering(1, people=3, dimension=3, complex_states=True, complex_projectors=True),
        "independent": random_answering(2, people=3),
        "qubits": random_qubits(3),
        "markov": MarkovTrust([0.1, 0.5], [0.2, 0.3], [0.4, 0.0]),
        "beta": BetaTrust([0.1, 0.5], [1.0, 2.0], [0.4, 0.0], [0.1, 0.2]),
        "order": QuantumOrder([0.1, 0.2], [0.3, 0.4], [0.5, 0.6], ranks=(1, 2)),
        "order in four dimensions": QuantumOrder4D(*np.arange(8.0).reshape(4, 2)),
        "joint distribution": BayesOrder([0.1, 0.2], [0.3, 0.4], [-0.5, 1.0]),
        "anchored": AnchoringOrder([0.1, 0.2], [0.3, 0.4], [-0.5, 0.5], [0.0, 0.1]),
        "tied": AnchoringOrder([0.1, 0.2], [0.3, 0.4], [-0.5, 0.5], tied=True),
        "saturated": SaturatedOrder(*np.arange(12.0).reshape(6, 2)),
        "projective": ProjectiveOrder(np.eye(2), np.broadcast_to(np.diag([1.0, 0.0]), (2, 3, 2, 2))),
        "walk": MarkovWalk([0.1, 0.2], [1.0, 2.0], n_states=7, n_categories=2, initial_width=0.25),
        "quantum walk": QuantumWalk([-1.0, 2.0], [1.0, 2.0]),
        "open walk": OpenSystemWalk([-1.0, 2.0], [1.0, 2.0], [0.5, 1.0]),
        "mixed": mix([TrustQubit(), MarkovTrust(0.1), BetaTrust(0.2)]),
    }
    return answering if many else {name: people[1] for name, people in answering.items()}


def assert_same_people(got, expected):
    assert type(got) is type(expected)
    assert got.is_population == expected.is_population
    assert jax.tree.structure(got) == jax.tree.structure(expected), "labels should be the same"
    for left, right in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert left.dtype == right.dtype
        # Vectors are normalised again when they are read.
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-7)


def test_every_family_comes_back_as_it_was(everybody, tmp_path):
    for name, people in everybody.items():
        path = tmp_path / f"{name}.npz"
        save_people(path, people)
        assert [file.name for file in tmp_path.iterdir() if file.stem == name] == [f"{name}.npz"]
        assert_same_people(load_people(str(path)), people)


def test_trust_comes_back_bit_for_bit(random_qubits, tmp_path):
    people = random_qubits(0, people=1000)
    save_people(tmp_path / "people.npz", people)
    jax.tree.map(np.testing.assert_array_equal, load_people(tmp_path / "people.npz"), people)


def test_labels_come_back_also_unusual_ones(tmp_path):
    labels = ("rote Tasse", "it's", '"', "☕", "[bold]")
    people = IndependentAnswers(np.full((5, 2), 0.5), labels, ("rot?", ""))
    save_people(tmp_path / "people.npz", people)
    loaded = load_people(tmp_path / "people.npz")
    assert loaded.hypotheses == labels
    assert loaded.questions == ("rot?", "")
    save_people(tmp_path / "domain.npz", default_domain())
    assert load_people(tmp_path / "domain.npz").questions == ("red?", "cup?", "left?")


def test_double_precision_is_written_and_read_in_the_precision_that_is_switched_on(tmp_path):
    path = tmp_path / "people.npz"
    with jax.enable_x64(True):
        people = TrustQubit(1.0 / 3.0, 0.1, 0.2, 0.3)
        save_people(path, people)
        jax.tree.map(np.testing.assert_array_equal, load_people(path), people)
    assert load_people(path).phi0.dtype == jnp.float32


def test_only_people_of_the_package_and_only_npz_files_are_written(tmp_path):
    with pytest.raises(ValueError, match=r"\.npz.*people\.csv"):
        save_people(tmp_path / "people.csv", TrustQubit())
    with pytest.raises(TypeError, match=r"TrustQubit.*got Stranger"):
        save_people(tmp_path / "people.npz", Stranger(0.5))
    with pytest.raises(TypeError, match=r"got dict"):
        save_people(tmp_path / "people.npz", {})
    assert not list(tmp_path.iterdir())


class Stranger(TrustingPerson):
    """A family that the package does not know."""

    p: jax.Array
    _person_ndims: ClassVar[dict[str, int]] = {"p": 0}

    def initial_trust(self, person):
        return self.p, self.p

    def after_outcome(self, trust, person, success):
        return trust

    def after_answer(self, trust, person, yes):
        return trust

    def after_wait(self, trust, person):
        return trust


GOOD = {"version": 1, "family": "MarkovTrust", "labels": {}}


def write(path, header, **arrays):
    np.savez(path, header=np.asarray(header if isinstance(header, str) else json.dumps(header)), **arrays)


def test_the_format_is_the_one_that_the_tests_below_spoil(tmp_path):
    path = tmp_path / "people.npz"
    write(path, GOOD, p0=0.5, up=0.25, down=0.125)
    assert_same_people(load_people(path), MarkovTrust(0.5, 0.25, 0.125))


@pytest.mark.parametrize("version", [0, 2, "1", None, True])
def test_a_file_of_another_version_is_refused_with_both_versions(tmp_path, version):
    path = tmp_path / "people.npz"
    write(path, GOOD | {"version": version}, p0=0.5, up=0.25, down=0.125)
    with pytest.raises(
        ValueError, match=rf"people\.npz has version {version!r}; this package reads version 1"
    ):
        load_people(path)


def test_another_version_is_named_also_if_its_header_is_different(tmp_path):
    path = tmp_path / "people.npz"
    write(path, {"version": 2, "kind": "X"})
    with pytest.raises(ValueError, match="has version 2; this package reads version 1"):
        load_people(path)


@pytest.mark.parametrize(
    "content",
    [
        "empty file",
        "text",
        "cut off",
        "one array",
        "arrays without a header",
        "header that is no JSON",
        "header that is a list",
        "header without labels",
        "header without a version",
        "unknown family",
        "family that is a list",
        "labels that are a list",
        "unknown labels",
        "unknown array",
        "pickled object",
    ],
)
def test_a_file_of_something_else_is_refused_by_name(tmp_path, content):
    path = tmp_path / "people.npz"
    arrays = {"p0": 0.5, "up": 0.25, "down": 0.125}
    if content == "empty file":
        path.write_bytes(b"")
    elif content == "text":
        path.write_text("participant,trial\n")
    elif content == "cut off":
        save_people(path, MarkovTrust())
        path.write_bytes(path.read_bytes()[:200])
    elif content == "one array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif content == "arrays without a header":
        np.savez(path, **arrays)
    elif content == "pickled object":
        write(path, GOOD, **arrays | {"p0": np.array([{}], object)})
    else:
        headers = {
            "header that is no JSON": "version 1",
            "header that is a list": [1],
            "header without labels": {"version": 1, "family": "MarkovTrust"},
            "header without a version": {"family": "MarkovTrust", "labels": {}},
            "unknown family": GOOD | {"family": "Person"},
            "family that is a list": GOOD | {"family": ["a"]},
            "labels that are a list": GOOD | {"labels": []},
            "unknown labels": GOOD | {"labels": {"questions": ["a"]}},
            "unknown array": GOOD,
        }
        extra = {"q0": 0.5} if content == "unknown array" else {}
        write(path, headers[content], **arrays, **extra)
    with pytest.raises(ValueError, match=r"people\.npz is no file of people"):
        load_people(path)


def test_people_that_make_no_sense_are_refused_by_field(tmp_path):
    path = tmp_path / "people.npz"
    write(path, GOOD, p0=0.5, up=1.5, down=0.125)
    with pytest.raises(ValueError, match=r"up must lie in \[0, 1\], got 1\.5"):
        load_people(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nobody\.npz"):
        load_people(tmp_path / "nobody.npz")


# --- people who differ a little, which clarification trains on -----------------------------------------


def test_varied_people_scatter_around_one_person_and_share_their_questions():
    person = default_domain()
    people = vary_states(jax.random.key(0), person, 2000, spread=0.1)
    assert len(people) == 2000
    assert people.questions == person.questions
    np.testing.assert_array_equal(
        people.projectors, np.broadcast_to(person.projectors, people.projectors.shape)
    )
    np.testing.assert_allclose(np.linalg.norm(people.states, axis=-1), 1.0, rtol=1e-5)
    # Noise of .1 in each of the three directions across a unit vector turns it by about .1 * sqrt(3).
    cosines = np.clip(np.einsum("phd,hd->ph", people.states, person.states), -1.0, 1.0)
    assert np.arccos(cosines).mean() == pytest.approx(0.16, abs=0.02)
    same = vary_states(jax.random.key(0), person, 3, spread=0.0)
    np.testing.assert_allclose(same.states, np.broadcast_to(person.states, (3, 3, 4)), atol=1e-6)


@pytest.mark.parametrize(("n", "spread", "named"), [(0, 0.1, "n=0"), (3, -0.1, "spread=-0.1")])
def test_impossible_variations_are_refused(n, spread, named):
    with pytest.raises(ValueError, match=named):
        vary_states(jax.random.key(0), default_domain(), n, spread)


def test_a_population_is_no_person_to_vary():
    population = as_population(default_domain())
    with pytest.raises(ValueError, match="one person, got a population of 1"):
        vary_states(jax.random.key(0), population, 3)
