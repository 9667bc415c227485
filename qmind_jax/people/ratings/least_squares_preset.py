"""Trust as 100 people rated it while they worked with a real robot: fitted numbers.

Source: the real-world part (100 participants, 10 trials each, ratings scaled to [0, 1]) of "A Hybrid Dataset
for Studying Human Trust Dynamics in Sequential Human-Robot Collaboration" (2025, MIT licence, copyright
(c) 2025 its authors). The ratings themselves are not part of this package;
:func:`qmind_jax.people.ratings.fit.fit_trust_family` gives these numbers again from them.

What the numbers can and cannot tell:

- Fitted to all 1,000 ratings by predicting them freely from each participant's first, the root mean squared
  error is .097 for Markov, .097 for Beta and .118 for the qubit. Fitted to one half of the participants and
  judged on the other, it is .096, .094 and .113, against .180 for "trust never changes". **Both classical
  models describe these people better than the qubit.**
- Nobody varied whether the participants were asked, so that no effect of a question was measured: the
  collapse of the qubit and of the Markov chain is the model's, not the data's.
- All people share the parameters. How they differ is in :mod:`qmind_jax.people.ratings.presets`.
"""

from collections.abc import Mapping
from types import MappingProxyType

TRUST_PARAMETERS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "qubit": MappingProxyType({"a_pos": 0.1375, "a_neg": 0.1773, "gamma": 0.1259}),
        "markov": MappingProxyType({"up": 0.1197, "down": 0.1736}),
        "beta": MappingProxyType({"n0": 1.0, "w_s": 0.2024, "w_f": 0.3061}),
    }
)
"""Shared parameters of each family, as the fields of its class; the qubit's angles in radians, per trial.

Ratings determine the weights of the Beta family only relative to ``n0``, which is therefore 1."""

FIRST_RATING_BETA: tuple[float, float] = (0.983, 1.147)
"""Parameters (a, b) of the Beta distribution with the mean (.461) and variance (.282 squared) of the first
ratings. It is nearly uniform, as they are; their distribution functions differ by at most .05."""
