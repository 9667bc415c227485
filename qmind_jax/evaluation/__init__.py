"""What policies achieve, and how good predictions of people are."""

from qmind_jax.evaluation.calibration import (
    Reliability,
    expected_calibration_error,
    maximum_calibration_error,
    reliability_curve,
)
from qmind_jax.evaluation.conformal import AdaptiveConformal, conformal_sets, conformal_threshold
from qmind_jax.evaluation.returns import Returns, evaluate
from qmind_jax.evaluation.scores import brier_score, log_loss, root_mean_square_error
