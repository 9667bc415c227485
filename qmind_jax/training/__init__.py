"""Training of agents inside one ``jit``."""

from qmind_jax.training.config import PPOConfig
from qmind_jax.training.halving import Search, successive_halving
from qmind_jax.training.hard_people import HardTraining, train_against_hard_people
from qmind_jax.training.hyper_parameters import HyperParameters
from qmind_jax.training.population import train_population
from qmind_jax.training.ppo import TrainResult, train
from qmind_jax.training.search_space import Range
