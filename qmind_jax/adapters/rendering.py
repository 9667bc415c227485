"""What people see of an episode: the last step in words, the last steps as a picture."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box
from PIL import Image, ImageDraw, ImageFont

from qmind_jax.environment import Environment
from qmind_jax.envs.clarification import Clarification
from qmind_jax.envs.trust_handover import ACTION_NAMES, ASK, WAIT, TrustHandover

COLUMNS = 32
"""Number of steps in a picture."""

CELL, GAP, TITLE, MARGIN = 16, 8, 28, 8
"""Pixels: the side of a cell, the space between actions and observations, the title line, the edge."""

POSITIVE, NEGATIVE = (0, 114, 178), (230, 159, 0)
NOTHING, UNUSED, INK, PAPER = (228, 228, 228), (246, 246, 246), (40, 40, 40), (255, 255, 255)


class Moment(NamedTuple):
    """What happened last in an episode.

    Attributes:
        time: Steps taken.
        action: The last action, None at the start.
        observation: What the agent sees now.
        reward: The last reward.
        info: The last info.
        end: How the episode ended, empty while it goes on.
    """

    time: int
    action: int | None
    observation: np.ndarray
    reward: float
    info: dict[str, Any]
    end: str


# --- words ----------------------------------------------------------------------------------------


def in_words(env: Environment, params: Any, moment: Moment) -> str:
    """A moment in words, hidden things included.

    Args:
        env: The environment.
        params: Its parameters.
        moment: What happened last.

    Returns:
        A few lines of text.
    """
    end = f"\nThe episode is over: {moment.end}" if moment.end else ""
    return _describe(env, params, moment) + end


@functools.singledispatch
def _describe(env: Environment, params: Any, moment: Moment) -> str:
    """A moment in words; environments with words of their own register them below."""
    action = "a new episode" if moment.action is None else f"action {moment.action}"
    return (
        f"Step {moment.time}: {action} (reward {moment.reward:+.2f})\n"
        f"Observation {moment.observation}, info {moment.info}"
    )


@_describe.register
def _(env: TrustHandover, params: Any, moment: Moment) -> str:
    outcome, answer, _ = moment.observation
    if moment.action is None:
        happened = "a person comes in"
    elif moment.action == WAIT:
        happened = "wait"
    elif moment.action == ASK:
        happened = f"{ACTION_NAMES[ASK]}: {'yes' if answer > 0 else 'no'}"
    else:
        happened = f"{ACTION_NAMES[moment.action]}: {'it worked' if outcome > 0 else 'it failed'}"
    trust = moment.info["p_trust"]
    bar = "#" * round(20 * trust)
    return (
        f"Step {moment.time} of {int(params.n_steps)}: {happened} (reward {moment.reward:+.2f})\n"
        f"Trust [{bar:.<20}] {trust:.2f}, hidden from the agent"
    )


@_describe.register
def _(env: Clarification, params: Any, moment: Moment) -> str:
    questions, hypotheses = params.people.questions, params.people.hypotheses
    action, info = moment.action, moment.info
    if action is None:
        happened = "A person comes in"
    elif action < len(questions):
        answer = "yes" if info["question_answer"] else "no"
        happened = f"Question {moment.time} of {int(params.max_questions)}, {questions[action]!r}: {answer}"
    else:
        verdict = "right" if info["correct"] else "wrong"
        happened = f"Act on {hypotheses[action - len(questions)]!r}: {verdict}"
    word = {-1: "no", 0: "-", 1: "yes"}
    answers = [f"{q!r} {word[int(a)]}" for q, a in zip(questions, moment.observation, strict=True)]
    return (
        f"{happened} (reward {moment.reward:+.2f})\n"
        f"Answers: {', '.join(answers)}\n"
        f"The person means {hypotheses[info['intent']]!r}, hidden from the agent"
    )


# --- a picture ------------------------------------------------------------------------------------


def as_picture(env: Environment, params: Any, space: Box, moments: Sequence[Moment]) -> np.ndarray:
    """The actions and observations of some steps, and nothing that is hidden from the agent.

    Args:
        env: The environment.
        params: Its parameters.
        space: Its observation space.
        moments: Successive moments of one episode, at most ``COLUMNS``.

    Returns:
        RGB image, uint8 of shape ``(height, width, 3)``, the same for all moments of an environment.
    """
    action_names, entry_names = _labels(env, params)
    rows = [_shorten(name) for name in (*action_names, *entry_names)]
    left = 2 * MARGIN + max(int(_font().getlength(name)) for name in rows)
    bottom = TITLE + len(rows) * CELL + GAP
    # Even numbers, as video encoders want them.
    image = Image.new("RGB", ((left + COLUMNS * CELL + MARGIN + 1) // 2 * 2, bottom + 2 * MARGIN), PAPER)
    draw = ImageDraw.Draw(image)

    def cell(row: int, column: int) -> tuple[int, int]:
        return left + column * CELL, TITLE + row * CELL + (GAP if row >= len(action_names) else 0)

    for row, name in enumerate(rows):
        _, y = cell(row, 0)
        draw.text((left - MARGIN, y + CELL // 2), name, INK, _font(), anchor="rm")
        for column in range(COLUMNS):
            _square(draw, cell(row, column), UNUSED)
    colours = _colours(np.stack([moment.observation.ravel() for moment in moments]), space)
    for column, moment in enumerate(moments):
        if moment.action is not None:
            _square(draw, cell(moment.action, column), INK)
        for row, colour in enumerate(colours[column], start=len(action_names)):
            _square(draw, cell(row, column), tuple(colour))
        if moment.time % 5 == 0:
            x, _ = cell(0, column)
            draw.text((x + CELL // 2, bottom + MARGIN), str(moment.time), INK, _font(), anchor="mm")
    draw.text((left - MARGIN, bottom + MARGIN), "step", INK, _font(), anchor="rm")

    last = moments[-1]
    title = f"Step {last.time}: reward {last.reward:+.2f}" + (f", {last.end}" if last.end else "")
    draw.text((left, TITLE // 2), title, INK, _font(), anchor="lm")
    x = left + COLUMNS * CELL
    for name, colour in (("negative", NEGATIVE), ("positive", POSITIVE)):
        draw.text((x, TITLE // 2), name, INK, _font(), anchor="rm")
        x -= int(_font().getlength(name)) + CELL + MARGIN // 2
        _square(draw, (x, (TITLE - CELL) // 2), colour)
        x -= MARGIN
    return np.array(image)


@functools.singledispatch
def _labels(env: Environment, params: Any) -> tuple[Sequence[str], Sequence[str]]:
    """Names of the actions and of the entries of the observation."""
    size = int(np.prod(env.observation_space(params).shape))
    actions = [f"action {i}" for i in range(env.action_space(params).n)]
    return actions, [f"observation {i}" for i in range(size)]


@_labels.register
def _(env: TrustHandover, params: Any) -> tuple[Sequence[str], Sequence[str]]:
    return ACTION_NAMES, ("last hand-over", "last answer", "time passed")


@_labels.register
def _(env: Clarification, params: Any) -> tuple[Sequence[str], Sequence[str]]:
    questions, hypotheses = params.people.questions, params.people.hypotheses
    actions = [f"ask {name!r}" for name in questions] + [f"act on {name!r}" for name in hypotheses]
    return actions, [f"answer to {name!r}" for name in questions]


def _colours(observations: np.ndarray, space: Box) -> np.ndarray:
    """uint8 ``(steps, entries, 3)``; full colour at the bound of an entry, or at its largest value here."""
    bound = np.maximum(np.abs(space.low), np.abs(space.high)).ravel()
    bound = np.where(np.isfinite(bound), bound, np.abs(observations).max(axis=0))
    strength = (np.abs(observations) / np.where(bound > 0, bound, 1.0))[..., None]
    hue = np.where(observations[..., None] > 0, np.float32(POSITIVE), np.float32(NEGATIVE))
    return (hue * strength + np.float32(NOTHING) * (1.0 - strength)).round().astype(np.uint8)


def _square(draw: ImageDraw.ImageDraw, corner: tuple[int, int], colour: tuple[int, ...]) -> None:
    """A cell, with a line of paper to its right and below."""
    x, y = corner
    draw.rectangle((x, y, x + CELL - 2, y + CELL - 2), fill=colour)


def _shorten(name: str, length: int = 30) -> str:
    return name if len(name) <= length else name[: length - 3] + "..."


@functools.cache
def _font() -> ImageFont.FreeTypeFont:
    return ImageFont.load_default(12)
