"""Simulated people: single persons and populations as pytrees."""

from qmind_jax.people.answering import AnsweringPerson, IndependentAnswers, ProjectiveAnswers
from qmind_jax.people.data import ORDER_TABLES, OrderTable, order_table, proportions_to_counts
from qmind_jax.people.fitting.bootstrapping import Bootstrap, bootstrap
from qmind_jax.people.fitting.comparison import Comparison, compare, recovery
from qmind_jax.people.fitting.counts import simulate_counts
from qmind_jax.people.fitting.fit import Fit, fit, fit_map
from qmind_jax.people.fitting.gaussian_prior import GaussianPrior
from qmind_jax.people.fitting.individuals import IndividualFits, fit_individuals
from qmind_jax.people.mixed_trust import MixedTrust, mix
from qmind_jax.people.order import (
    AnchoringOrder,
    BayesOrder,
    ProjectiveOrder,
    QuantumOrder,
    QuantumOrder4D,
    SaturatedOrder,
)
from qmind_jax.people.population import Person, as_population, stack
from qmind_jax.people.posteriors.hierarchy import HierarchicalFit, fit_hierarchy
from qmind_jax.people.posteriors.hyperprior import Hyperprior
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood, RatingLikelihood
from qmind_jax.people.posteriors.particle_clouds import Posterior
from qmind_jax.people.posteriors.sampling import PeopleSource, Split, sample_people, split
from qmind_jax.people.predicting import Design, PredictingPerson
from qmind_jax.people.published import default_domain, handover_population, hard_domain
from qmind_jax.people.qq_equality import QQTest, qq_statistic, qq_test, rates
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
from qmind_jax.people.regions import CredibleRegion, PeopleWithin
from qmind_jax.people.storage import load_people, save_people
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustingPerson, TrustQubit
from qmind_jax.people.trust_answers import final_yes, question_effect
from qmind_jax.people.variation import vary_states
from qmind_jax.people.walks import MarkovWalk, OpenSystemWalk, QuantumWalk
