"""Pictures: functions from arrays to matplotlib axes, in colours that colour-blind readers can tell apart."""

from qmind_jax.plots.answers import order_effect, order_predictions
from qmind_jax.plots.beliefs import posterior_over_answers
from qmind_jax.plots.episodes import animate_episodes, save_gif
from qmind_jax.plots.fits import errors_by_rating, predictions_against_ratings
from qmind_jax.plots.learning import learning_curve
from qmind_jax.plots.populations import hard_people_in_parameter_space, people_in_parameter_space
from qmind_jax.plots.returns import reliability_diagram, returns_over_people
from qmind_jax.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from qmind_jax.plots.sweeps import sweep_curves, sweep_heat_map
from qmind_jax.plots.trust import disc_grid, policy_on_disc, policy_over_time, trust_disc, trust_over_time
