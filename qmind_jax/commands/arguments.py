"""What the texts of the command line mean."""

import dataclasses
from typing import Any

import jax
from rich.table import Table

from qmind_jax import runs
from qmind_jax.commands import output
from qmind_jax.names import unknown
from qmind_jax.people.ratings.fit import TrustFamily, held_out_errors
from qmind_jax.people.ratings.trials import TrustTrials, load_trust_trials
from qmind_jax.training.config import PPOConfig
from qmind_jax.training.search_space import Range

CHECKPOINTS = 10
"""Of one training."""


def make_people(env_id: str, people: str | None, num_people: int, family: TrustFamily, key: jax.Array) -> Any:
    """The population that the command line asks for; see the command ``train``."""
    trials = _load_ratings(people) if people is not None and people.endswith(".csv") else None
    return runs.population(env_id, people, num_people, family, key, trials)


def configure(
    preset: PPOConfig, network: str | None, steps: int | None, changes: dict[str, Any]
) -> PPOConfig:
    """A preset with some values changed.

    Raises:
        ValueError: For an unknown hyper-parameter, or a value that makes no sense.
    """
    known = [field.name for field in dataclasses.fields(PPOConfig)]
    for name in changes:
        if name not in known:
            raise ValueError(unknown("hyper-parameter", name, known))
    if network is not None:
        changes["network"] = network
    if steps is not None:
        changes["total_steps"] = steps
    config = dataclasses.replace(preset, **changes)
    if config.num_updates <= CHECKPOINTS:
        return config
    # A whole number of updates between checkpoints, so that one compilation serves all parts.
    updates = config.num_updates // CHECKPOINTS * CHECKPOINTS
    return dataclasses.replace(config, total_steps=updates * config.steps_per_update)


def parse_assignments(kind: str, assignments: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` texts as a dictionary; values are numbers, true, false, or words.

    Raises:
        ValueError: If a text is no assignment.
    """
    words = {"true": True, "false": False}
    parsed: dict[str, Any] = {}
    for text in assignments:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise ValueError(f"a {kind} must be written name=value, got {text!r}")
        if value.lower() in words:
            parsed[name] = words[value.lower()]
            continue
        try:
            parsed[name] = int(value)
        except ValueError:
            try:
                parsed[name] = float(value)
            except ValueError:
                parsed[name] = value
    return parsed


def parse_space(texts: tuple[str, ...]) -> dict[str, Range]:
    """Ranges by name, from ``name=low:high`` or, for logarithmic ones, ``name=log:low:high``.

    Raises:
        ValueError: If a text is no range, or names a hyper-parameter for the second time.
    """
    space: dict[str, Range] = {}
    for text in texts:
        name, _, ends = text.partition("=")
        log = ends.startswith("log:")
        try:
            low, high = map(float, ends.removeprefix("log:").split(":"))
        except ValueError:
            raise ValueError(
                f"a range must be written name=low:high or name=log:low:high, got {text!r}"
            ) from None
        if name in space:
            raise ValueError(f"a hyper-parameter must have one range, got {name!r} twice")
        try:
            space[name] = Range(low, high, log)
        except ValueError as error:
            raise ValueError(f"{text}: {error}") from error
    return space


def _load_ratings(path: str) -> TrustTrials:
    trials = load_trust_trials(path)
    print(f"How well each family predicts people in {path}")
    table = Table("model", "held-out error")
    for name, error in sorted(held_out_errors(trials).items(), key=lambda item: item[1]):
        table.add_row(name, f"{error:.4f}")
    output.console.print(table)
    output.console.print(
        "Root mean squared error of trust, from the first rating and the robot's outcomes alone, "
        "fitted to every second participant and judged on the others.\n"
    )
    return trials
