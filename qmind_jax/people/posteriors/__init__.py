"""What is known of people after their answers: particles, hierarchies, and people drawn from them."""

from qmind_jax.people.posteriors import posterior
from qmind_jax.people.posteriors.hierarchy import HierarchicalFit, fit_hierarchy
from qmind_jax.people.posteriors.hyperprior import Hyperprior
from qmind_jax.people.posteriors.likelihoods import AnswerLikelihood, RatingLikelihood
from qmind_jax.people.posteriors.particle_clouds import Posterior
from qmind_jax.people.posteriors.sampling import PeopleSource, Split, sample_people, split
