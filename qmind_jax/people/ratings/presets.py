"""Populations by name: how 100 people who worked with a real robot differ in their trust.

Fitted by :func:`~qmind_jax.people.ratings.population_fit.fit_trust_population` to the ratings named in
:mod:`qmind_jax.people.ratings.least_squares_preset`, which says what they can and cannot tell. The log
evidence of the families on them is 1294.3 for Markov, 1292.4 for Beta and 1280.2 for the qubit, which has
one parameter more: **the classical families win here too**. Root mean squared error of a rating from the
third on, for participants who were left out of the fit:

========================  =====  ======  =====  ==============
known of the participant  Beta   Markov  qubit  without a model
========================  =====  ======  =====  ==============
the first rating          .097   .099    .120   .192 (as the first)
all ratings before        .065   .066    .067   .070 (as the last)
========================  =====  ======  =====  ==============
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax

from qmind_jax.names import unknown
from qmind_jax.people.ratings.distribution import TrustDistribution
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustQubit

PEOPLE_PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "trust_real_world_beta": MappingProxyType(
            {
                "family": "beta",
                "mean": (-0.2345, -1.8002, -1.3137),
                "covariance": (
                    (1.5685, -0.1186, -0.3314),
                    (-0.1186, 0.4352, 0.1765),
                    (-0.3314, 0.1765, 0.5201),
                ),
                "noise": 0.0559,
            }
        ),
        "trust_real_world_markov": MappingProxyType(
            {
                "family": "markov",
                "mean": (-0.2359, -2.2603, -1.7682),
                "covariance": (
                    (1.6035, 0.0172, -0.2426),
                    (0.0172, 0.2073, -0.0812),
                    (-0.2426, -0.0812, 0.2909),
                ),
                "noise": 0.0558,
            }
        ),
        "trust_real_world_qubit": MappingProxyType(
            {
                "family": "qubit",
                "mean": (0.1534, -3.0197, -2.8768, -2.7195),
                "covariance": (
                    (0.5692, 0.5827, -0.1296, 0.6542),
                    (0.5827, 1.0494, -0.0775, 1.1899),
                    (-0.1296, -0.0775, 0.1192, 0.0001),
                    (0.6542, 1.1899, 0.0001, 1.7122),
                ),
                "noise": 0.0541,
            }
        ),
    }
)
"""Arguments of :meth:`TrustDistribution.of` by name. Means and covariances are on the free scale (logits of
what lies in a range, logarithms of weights) in the order of the fields of the family, ``n0`` left out."""


def preset_distribution(name: str) -> TrustDistribution:
    """The distribution of people of a preset.

    Raises:
        ValueError: For an unknown name; the nearest known one is named.
    """
    if name not in PEOPLE_PRESETS:
        raise ValueError(unknown("people preset", name, PEOPLE_PRESETS))
    return TrustDistribution.of(**PEOPLE_PRESETS[name])


def preset_people(name: str, key: jax.Array, n: int) -> TrustQubit | MarkovTrust | BetaTrust:
    """``n`` people of a preset, each with parameters of their own.

    They differ in how they react, while those of :func:`~qmind_jax.people.trust_population` differ only in
    their initial trust. What a question does to the trust of qubit and Markov people is the model's
    claim: in the data nobody varied whether people were asked.

    Args:
        name: One of :data:`PEOPLE_PRESETS`, such as ``"trust_real_world_qubit"``.
        key: JAX random key.
        n: Number of people, at least 1.

    Raises:
        ValueError: For an unknown name (the nearest known one is named) or ``n`` below 1.
    """
    return preset_distribution(name).people(key, n)
