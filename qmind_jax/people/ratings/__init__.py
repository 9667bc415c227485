"""People fitted to ratings of trust, and predictions of the next rating."""

from qmind_jax.people.ratings.comparison import TrustComparison, compare_trust_families
from qmind_jax.people.ratings.distribution import TrustDistribution
from qmind_jax.people.ratings.estimates import estimate_people, predict_next
from qmind_jax.people.ratings.fit import (
    TrustFit,
    fit_trust_family,
    held_out_errors,
    predict_trust,
    trust_population,
)
from qmind_jax.people.ratings.population_fit import TrustPopulationFit, fit_trust_population
from qmind_jax.people.ratings.presets import preset_distribution, preset_people
from qmind_jax.people.ratings.trials import RatingsError, TrustTrials, load_trust_trials
