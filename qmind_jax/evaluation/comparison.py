"""Whether one policy is better than another: paired differences on common random numbers."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from scipy import stats

from qmind_jax.evaluation.returns import Returns

Alternative = Literal["two-sided", "greater", "less"]
Test = Literal["t", "permutation"]
Unit = Literal["episode", "person"]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One policy against a baseline.

    Attributes:
        name: Name of the policy.
        difference: Mean of its returns minus those of the baseline, in units of reward.
        standard_error: Of the difference, from the paired differences.
        effect_size: Difference over the standard deviation of the paired differences (Cohen's d_z); 0 where
            there is no difference at all, infinite where it is always the same.
        p_value: Of the test, for this policy alone.
        p_holm: The same, corrected for the number of policies compared (Holm 1979).
        pairs: Number of paired differences.
    """

    name: str
    difference: float
    standard_error: float
    effect_size: float
    p_value: float
    p_holm: float
    pairs: int


def compare_policies(
    returns: Mapping[str, Returns],
    baseline: str,
    *,
    unit: Unit = "episode",
    test: Test = "t",
    alternative: Alternative = "two-sided",
    resamples: int = 9_999,
    seed: int = 0,
) -> list[Comparison]:
    """Compare policies with one of them, in pairs.

    All must have been evaluated under one key, with the same people and as many episodes: then episode i had
    the same person and the same luck in each, which cancel in the difference.

    Args:
        returns: What each policy earned, by name; at least the baseline and one more.
        baseline: Name of the policy that the others are compared with.
        unit: ``"episode"``: is there a difference for these people? ``"person"``: would there be one for
            other people of the same kind? Then the mean differences of the people are the sample.
        test: ``"t"``: paired t-test, which needs no normal returns where there are many. ``"permutation"``:
            signs of the differences swapped at random.
        alternative: ``"greater"`` asks whether a policy is better than the baseline, ``"less"`` whether it is
            worse.
        resamples: Random swaps of a permutation test, at least 99.
        seed: Of these swaps.

    Returns:
        One comparison per policy, in the order of ``returns``.

    Raises:
        ValueError: If names, options or the episodes do not fit together.
    """
    _check(returns, baseline, {"unit": (unit, Unit), "test": (test, Test)}, alternative, resamples)
    base = returns[baseline]
    differences = {
        name: _paired_differences(name, other, base, unit)
        for name, other in returns.items()
        if name != baseline
    }
    rng = np.random.default_rng(seed)
    p_values = [
        _t_test(sample, alternative) if test == "t" else _sign_swaps(sample, alternative, resamples, rng)
        for sample in differences.values()
    ]
    return [
        Comparison(
            name=name,
            difference=float(sample.mean()),
            standard_error=float(sample.std(ddof=1) / np.sqrt(sample.size)),
            effect_size=_effect_size(sample),
            p_value=p_value,
            p_holm=corrected,
            pairs=sample.size,
        )
        for (name, sample), p_value, corrected in zip(
            differences.items(), p_values, holm(p_values), strict=True
        )
    ]


def holm(p_values: Any) -> list[float]:
    """Holm's correction: p-values of which any below a level means an error of that level over all.

    Args:
        p_values: In [0, 1], one per test.

    Raises:
        ValueError: If one is outside [0, 1].
    """
    values = np.asarray(p_values, float)
    if values.ndim != 1 or not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"p_values must be a sequence of numbers in [0, 1], got {p_values!r}")
    order = np.argsort(values, kind="stable")
    # The smallest of m counts m-fold, the next (m - 1)-fold, and none less than one before it.
    raised = np.minimum(np.maximum.accumulate(values[order] * (values.size - np.arange(values.size))), 1.0)
    corrected = np.empty_like(values)
    corrected[order] = raised
    return corrected.tolist()


def _paired_differences(name: str, returns: Returns, base: Returns, unit: Unit) -> np.ndarray:
    person, base_person = np.asarray(returns.person), np.asarray(base.person)
    if not np.array_equal(person, base_person):
        raise ValueError(
            f"{name!r} and the baseline did not meet the same people in the same order: evaluate both under "
            "one key, with as many episodes and the same people"
        )
    difference = np.asarray(returns.per_episode, float) - np.asarray(base.per_episode, float)
    if unit == "episode":
        return difference
    met, index = np.unique(person, return_inverse=True)
    if met.size < 2:
        raise ValueError(f"unit 'person' needs at least two people, and the episodes were with {met.size}")
    return np.bincount(index, difference) / np.bincount(index)


def _effect_size(sample: np.ndarray) -> float:
    spread, mean = float(sample.std(ddof=1)), float(sample.mean())
    if spread > 0.0:
        return mean / spread
    return float(np.copysign(np.inf, mean)) if mean else 0.0


def _t_test(sample: np.ndarray, alternative: Alternative) -> float:
    # scipy divides zero by zero where all differences are equal.
    if sample.std() > 0.0:
        return float(stats.ttest_1samp(sample, 0.0, alternative=alternative).pvalue)
    sign = np.sign(sample.mean())
    wanted = {"two-sided": sign != 0, "greater": sign > 0, "less": sign < 0}[alternative]
    return 0.0 if wanted else 1.0


def _sign_swaps(
    sample: np.ndarray, alternative: Alternative, resamples: int, rng: np.random.Generator
) -> float:
    result = stats.permutation_test(
        (sample, np.zeros_like(sample)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=resamples,
        # At most some 8 MB of swapped differences at a time.
        batch=max(1, 10**6 // sample.size),
        alternative=alternative,
        rng=rng,
    )
    return float(result.pvalue)


def _check(
    returns: Mapping[str, Returns],
    baseline: str,
    options: Mapping[str, tuple[str, Any]],
    alternative: str,
    resamples: int,
) -> None:
    if baseline not in returns or len(returns) < 2:
        raise ValueError(
            f"returns must hold the baseline {baseline!r} and at least one more policy, got {sorted(returns)}"
        )
    for name, (value, kind) in {**options, "alternative": (alternative, Alternative)}.items():
        if value not in get_args(kind):
            raise ValueError(f"{name} must be one of {list(get_args(kind))}, got {value!r}")
    if resamples < 99:
        raise ValueError(f"resamples must be at least 99, got {resamples}")
    for name, result in returns.items():
        if np.ndim(result.per_episode) != 1:
            raise ValueError(
                f"{name!r} has returns of shape {np.shape(result.per_episode)}; compare policies one by one, "
                "not stacked"
            )
