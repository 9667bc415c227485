"""Simulated people: single persons and populations as pytrees."""

from qmind_jax.people.answering import AnsweringPerson, IndependentAnswers, ProjectiveAnswers
from qmind_jax.people.population import Person, as_population, stack
from qmind_jax.people.published import default_domain, handover_population, hard_domain
from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustingPerson, TrustQubit
