"""Simulated people: single persons and populations as pytrees."""

from qmind_jax.people.answering import AnsweringPerson, IndependentAnswers, ProjectiveAnswers
from qmind_jax.people.counts import simulate_counts
from qmind_jax.people.data import ORDER_TABLES, OrderTable, order_table, proportions_to_counts
from qmind_jax.people.fitting import (
    Bootstrap,
    Comparison,
    Fit,
    IndividualFits,
    bootstrap,
    compare,
    fit,
    fit_individuals,
    fit_map,
    recovery,
)
from qmind_jax.people.gaussian_prior import GaussianPrior
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
from qmind_jax.people.posteriors import (
    AnswerLikelihood,
    HierarchicalFit,
    Hyperprior,
    PeopleSource,
    Posterior,
    RatingLikelihood,
    Split,
    fit_hierarchy,
    posterior,
    sample_people,
    split,
)
from qmind_jax.people.predicting import Design, PredictingPerson
from qmind_jax.people.published import default_domain, handover_population, hard_domain
from qmind_jax.people.qq_equality import QQTest, qq_statistic, qq_test, rates
from qmind_jax.people.ratings import (
    RatingsError,
    TrustComparison,
    TrustDistribution,
    TrustFit,
    TrustPopulationFit,
    TrustTrials,
    compare_trust_families,
    estimate_people,
    fit_trust_family,
    fit_trust_population,
    held_out_errors,
    load_trust_trials,
    predict_next,
    predict_trust,
    preset_distribution,
    preset_people,
    trust_population,
)
from qmind_jax.people.regions import CredibleRegion, PeopleWithin
from qmind_jax.people.storage import load_people, save_people
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustingPerson, TrustQubit
from qmind_jax.people.trust_answers import final_yes, question_effect
from qmind_jax.people.variation import vary_states
from qmind_jax.people.walks import MarkovWalk, OpenSystemWalk, QuantumWalk
