"""What policies achieve, and how good predictions of people are."""

from qmind_jax.evaluation.by_person import ByPerson, by_person
from qmind_jax.evaluation.calibration import (
    Reliability,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_curve,
)
from qmind_jax.evaluation.comparison import Comparison, compare_policies, holm
from qmind_jax.evaluation.conformal import AdaptiveConformal, conformal_sets, conformal_threshold
from qmind_jax.evaluation.hard_people import HardPeople, find_hard_people
from qmind_jax.evaluation.mean_optimum import best_possible
from qmind_jax.evaluation.parts import evaluate_in_parts
from qmind_jax.evaluation.regret import Regret, optima, regret
from qmind_jax.evaluation.returns import MeanReturn, Returns, evaluate
from qmind_jax.evaluation.risk import WorstPeople, cvar, worst_people
from qmind_jax.evaluation.scores import brier_score, log_loss, root_mean_square_error
from qmind_jax.evaluation.stated_beliefs import StatedBeliefs, stated_beliefs
from qmind_jax.evaluation.sweep import sweep
from qmind_jax.evaluation.sweep_files import load_sweep, save_sweep
