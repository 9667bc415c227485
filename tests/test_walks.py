"""Opinions that wander along a scale."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from qmind_jax.people import MarkovWalk, OpenSystemWalk, QuantumWalk

DESIGN = {"single": ("single", 0.7), "joint": ("joint", 0.7, 1.9)}
WALKS = (MarkovWalk, QuantumWalk, OpenSystemWalk)


def dense_open_system(walk, time):
    """Probabilities of the places from the N^2 x N^2 exponential that the package does without."""
    n = walk.n_states
    hamiltonian = np.diag(float(walk.mu) * walk.scale.places)
    hamiltonian += float(walk.sigma) * (np.eye(n, k=1) + np.eye(n, k=-1))
    one = np.eye(n)
    generator = -1j * (np.kron(hamiltonian, one) - np.kron(one, hamiltonian.T))
    generator -= float(walk.lam) * np.diag(1.0 - one.reshape(-1))
    start = np.sqrt(walk.scale.start)
    density = scipy.linalg.expm(generator * time) @ np.outer(start, start).reshape(-1)
    return np.real(np.diagonal(density.reshape(n, n)))


def test_the_open_system_walk_is_exact_to_rounding():
    with jax.enable_x64(True):
        for rates in ((2.0, 2.0, 1.0), (-3.0, 0.2, 8.0), (0.0, 9.0, 0.01)):
            walk = OpenSystemWalk(*rates, n_states=9)
            for time in (0.0, 0.3, 4.0):
                got = walk.predict({"t": ("single", time)})["t"]
                expected = walk.scale.members @ dense_open_system(walk, time)
                np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_dephasing_leads_from_the_quantum_walk_to_no_movement():
    quantum = QuantumWalk(mu=1.0, sigma=2.0).predict(DESIGN)
    coherent = OpenSystemWalk(mu=1.0, sigma=2.0, lam=1e-7).predict(DESIGN)
    for name, cells in quantum.items():
        np.testing.assert_allclose(coherent[name], cells, atol=1e-5)
    frozen = OpenSystemWalk(mu=1.0, sigma=0.1, lam=1000.0)
    still = frozen.predict({"start": ("single", 0.0), "later": ("single", 3.0)})
    np.testing.assert_allclose(still["later"], still["start"], atol=1e-3)


@pytest.mark.parametrize("family", WALKS)
def test_predictions_are_distributions(family):
    people = family.from_free(np.random.default_rng(1).normal(size=(3, len(family.parameters))))
    for name, cells in jax.jit(lambda people: people.predict(DESIGN))(people).items():
        assert cells.shape == (3, 9 if name == "joint" else 3)
        np.testing.assert_allclose(cells.sum(axis=1), 1.0, atol=1e-5)
        assert np.all(cells > -1e-6)
    # Nothing that is asked first depends on what is asked later.
    np.testing.assert_allclose(
        people.predict(DESIGN)["joint"].reshape(3, 3, 3).sum(axis=2),
        people.predict(DESIGN)["single"],
        atol=1e-5,
    )


def test_asking_changes_a_quantum_opinion_but_no_classical_one():
    design = {"asked": ("joint", 0.7, 1.9), "not asked": ("single", 1.9)}
    for family, changes in ((MarkovWalk, False), (QuantumWalk, True), (OpenSystemWalk, True)):
        cells = family().predict(design)
        effect = np.abs(cells["asked"].reshape(3, 3).sum(axis=0) - cells["not asked"]).max()
        assert effect > 1e-3 if changes else effect < 1e-5


@pytest.mark.parametrize("family", WALKS)
def test_all_kinds_of_derivatives(family):
    def loss(free):
        return sum(
            jnp.sum(jnp.log(cells)) for cells in family.from_free(free, n_states=7).predict(DESIGN).values()
        )

    with jax.enable_x64(True):
        free = jnp.array([0.3, 0.4, -0.2][: len(family.parameters)])
        backward, forward = jax.jit(jax.grad(loss))(free), jax.jit(jax.jacfwd(loss))(free)
        steps = 1e-5 * np.eye(len(free))
        np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-9)
        expected = [(loss(free + s) - loss(free - s)) / 2e-5 for s in steps]
        np.testing.assert_allclose(backward, expected, rtol=1e-6, atol=1e-7)
        gradient = jax.jit(jax.grad(loss))
        expected = [(gradient(free + s) - gradient(free - s)) / 2e-5 for s in steps]
        np.testing.assert_allclose(jax.jit(jax.hessian(loss))(free), expected, rtol=1e-5, atol=1e-6)


def test_rates_beyond_all_data_are_no_numbers():
    assert np.all(np.isnan(MarkovWalk(gamma=1e6).predict()["t1"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MarkovWalk(gamma=-1.0), "gamma must lie in"),
        (lambda: MarkovWalk(n_states=1), "n_states must be a whole number of at least 2"),
        (lambda: MarkovWalk(n_categories=22), "from 1 to n_states"),
        (lambda: MarkovWalk(initial_width=0.0), "initial_width must be positive"),
        (lambda: MarkovWalk().predict({"x": ("single",)}), re.escape("('single', t) or ('joint', t1, t2)")),
        (lambda: MarkovWalk().predict({"x": ("joint", 2.0, 1.0)}), "do not fall"),
        (lambda: MarkovWalk().predict({"x": ("single", -1.0)}), "at least 0"),
        (lambda: MarkovWalk().predict({"x": ("single", np.nan)}), "finite times"),
        (lambda: MarkovWalk().predict({"x": 3.0}), "must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
