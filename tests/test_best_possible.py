"""The optimum that stands beside the returns of a run."""

import jax
import numpy as np
import pytest
from flax import struct

from qmind_jax.evaluation import best_possible, optima
from qmind_jax.people import TrustQubit, handover_population
from qmind_jax.registry import REGISTRY, make


@pytest.fixture(scope="module")
def ten_people():
    return make("TrustHandover-v0", people=handover_population(jax.random.key(0), 10), n_steps=3)[1]


def test_it_is_the_mean_over_everybody(ten_people):
    best = best_possible(ten_people)
    assert best.mean == pytest.approx(float(optima(ten_people).mean()), abs=1e-5)
    assert best.standard_error == 0.0


def test_of_many_people_some_stand_for_all(ten_people, monkeypatch):
    for name in ("FEWEST_SOLVED", "MOST_SOLVED"):
        monkeypatch.setattr(f"qmind_jax.evaluation.mean_optimum.{name}", 4)
    some = np.asarray(optima(ten_people))[[0, 3, 6, 9]]
    best = best_possible(ten_people)
    assert best.mean == pytest.approx(some.mean(), abs=1e-5)
    assert best.standard_error == pytest.approx(some.std(ddof=1) * np.sqrt(0.6 / 4), rel=1e-3)


def test_what_takes_too_long_is_left_out(ten_people):
    assert best_possible(ten_people.replace(n_steps=100_000)) is None
    _, params = make("Clarification-v0")
    assert best_possible(params).mean == pytest.approx(-1.6108, abs=1e-4)
    assert best_possible(params.replace(max_questions=12)) is None


def test_every_registered_environment_has_one():
    for env_id in REGISTRY:
        assert best_possible(make(env_id)[1]) is not None


@struct.dataclass
class OtherParams:
    """Parameters of no environment of ours."""

    people: TrustQubit


def test_another_environment_is_refused(ten_people):
    with pytest.raises(
        TypeError, match="params must be ClarificationParams or TrustHandoverParams, got Other"
    ):
        best_possible(OtherParams(ten_people.people))
