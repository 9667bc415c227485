"""Fits of families of people to counts: of one survey, of many people, and of simulated surveys."""

from qmind_jax.people.fitting.bootstrapping import Bootstrap, bootstrap
from qmind_jax.people.fitting.comparison import Comparison, compare, recovery
from qmind_jax.people.fitting.individuals import IndividualFits, fit_individuals
from qmind_jax.people.fitting.maximum_likelihood import Fit, fit, fit_map
