"""One simulated person at a time through Gymnasium's ``Env``, and what both Gymnasium doors share."""

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.error import ResetNeeded
from gymnax.environments.spaces import gymnax_space_to_gym_space
from jax import lax

from qmind_jax.environment import Environment
from qmind_jax.envs.clarification import Clarification, ClarificationState
from qmind_jax.envs.trust_handover import ACTION_NAMES, ASK, WAIT, TrustHandover, TrustHandoverState
from qmind_jax.people.trust import p_trust
from qmind_jax.registry import make, override, unknown

# Draws at the start of an episode that an option of ``reset`` can fix: the name of a field of the
# environment's noise, and the names of its outcomes in the order of their indices.
FIXABLE_DRAWS: dict[str, Callable[[Any], Sequence[Any]]] = {
    "person": lambda people: range(len(people)),
    "intent": lambda people: people.hypotheses,
}

# The entries of a step's info that the state alone determines: ``reset`` reports them too. An
# environment that is not listed reports nothing at reset.
STATE_INFO: dict[type, Callable[[Any], dict[str, jax.Array]]] = {
    ClarificationState: lambda state: {"intent": state.intent},
    TrustHandoverState: lambda state: {"p_trust": p_trust((state.z, state.x))},
}

CELL, COLUMNS = 12, 32


class GymnasiumEnv(gymnasium.Env[np.ndarray, int]):
    """A Gymnasium environment over any environment of qmind_jax.

    Observations are float32 arrays that belong to the caller, rewards Python floats, flags Python
    bools, and the entries of ``info`` Python scalars (arrays where the environment's are).
    ``info`` holds what the environment's own ``info`` holds, hidden things for evaluation included.
    Nothing resets by itself.

    **Random numbers.** ``reset`` draws 64 bits from ``np_random`` as the key of the episode; step t
    (with ``reset`` as step 0) uses ``env.sample_noise(jax.random.fold_in(key, t))``.

    **Options of** ``reset``, where the environment draws such a thing: ``"person"`` (index into the
    population) and ``"intent"`` (index or name of a hypothesis). They hold for one episode, and
    fixing them changes no other random number.

    **Rendering.** ``"ansi"`` tells the last step in words, hidden things included. ``"rgb_array"``
    draws the last 32 observations, one column per step and one row per entry: green for positive,
    red for negative, grey for zero; uint8 of shape ``(12 * entries, 384, 3)``.

    Args:
        env: An id of :data:`qmind_jax.registry.REGISTRY`, or an environment.
        params: Parameters; the defaults of the id or of the environment if None.
        render_mode: None, ``"ansi"`` or ``"rgb_array"``.
        **overrides: Parameters to change, by name. ``people`` may be a population, one person, a
            sequence of people, or a function from a JAX key to a person, called at every reset; its
            people must be of one family with the same shapes and labels, and the spaces are those
            of ``people(jax.random.key(0))``.

    Raises:
        ValueError: For an unknown id, parameter or render mode, or a value that makes no sense.
        TypeError: If the people do not fit the environment.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(
        self,
        env: str | Environment,
        params: Any = None,
        *,
        render_mode: str | None = None,
        **overrides: Any,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"render_mode must be None, 'ansi' or 'rgb_array', got {render_mode!r}")
        # SyncVectorEnv writes into the metadata of the environments that it is given.
        self.metadata = dict(type(self).metadata)
        self.render_mode = render_mode
        self._draw_person = None
        if callable(overrides.get("people")):
            self._draw_person = overrides["people"]
            overrides["people"] = self._draw_person(jax.random.key(0))
        self._env, self._params = build(env, params, overrides)
        self.action_space = gymnax_space_to_gym_space(self._env.action_space(self._params))
        self.observation_space = gymnax_space_to_gym_space(self._env.observation_space(self._params))

        carry, start = _start.eval_shape(self._env, np.zeros(2, np.uint32), {}, self._params)
        _, step = _advance.eval_shape(self._env, carry, np.int32(0), self._params)
        self._start_layout, self._step_layout = _layout(start), _layout(step)
        self._start_info, self._step_info = sorted(start[-1]), sorted(step[-1])

        self._carry: jax.Array | None = None
        self._time, self._over = 0, False
        self._moments: collections.deque[Moment] = collections.deque(maxlen=COLUMNS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: Restarts ``np_random``; the same seed gives the same episodes from here on.
            options: See the class; ``{"intent": "red cup"}``, ``{"person": 3}``.

        Returns:
            Observation, and the entries of ``info`` that are known before the first step.

        Raises:
            ValueError: For an unknown option, person or intent, or if the function ``people`` makes
                people of different families, shapes or labels.
        """
        fixed = read_options(self._env, self._params, options or {})
        super().reset(seed=seed)
        words = draw_key(self.np_random)
        if self._draw_person is not None:
            key = jax.random.wrap_key_data(draw_key(self.np_random), impl="threefry2x32")
            self._params = self._with_people(self._draw_person(key))
        self._carry, seen = _start_packed(self._env, words, fixed, self._params)
        observation, *values = np.asarray(seen).view(self._start_layout)[0].item()
        observation, info = observation.copy(), dict(zip(self._start_info, values, strict=True))
        self._time, self._over = 0, False
        self._moments.clear()
        self._moments.append(Moment(0, None, observation.copy(), 0.0, dict(info), ""))
        return observation, info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Apply one action.

        Args:
            action: An integer of the action space: a Python or NumPy integer, or an integer array
                of shape ``()``.

        Returns:
            Observation, reward, terminated, truncated, info.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset``, and after the end of an episode.
            TypeError: If the action is not an integer.
            ValueError: If it is outside the action space, or an array of another shape.
        """
        if self._carry is None:
            raise ResetNeeded("step() before reset(): call reset() to start an episode")
        if self._over:
            raise ResetNeeded("step() after the end of the episode: call reset() to start the next one")
        action = _read_action(action, self.action_space.n)
        self._time += 1
        self._carry, seen = _advance_packed(self._env, self._carry, np.int32(action), self._params)
        record = np.asarray(seen).view(self._step_layout)[0].item()
        observation, reward, terminated, truncated, *values = record
        observation, info = observation.copy(), dict(zip(self._step_info, values, strict=True))
        self._over = terminated or truncated
        if self.render_mode is not None:
            end = "terminated" if terminated else "truncated" if truncated else ""
            moment = Moment(self._time, action, observation.copy(), reward, dict(info), end)
            self._moments.append(moment)
        return observation, reward, terminated, truncated, info

    def render(self) -> str | np.ndarray | None:
        """What happened last, in the form that ``render_mode`` names.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset``.
        """
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode; make the environment with one of "
                f"{self.metadata['render_modes']}"
            )
            return None
        if self._carry is None:
            raise ResetNeeded("render() before reset(): call reset() to start an episode")
        if self.render_mode == "rgb_array":
            return _strip_chart([moment.observation for moment in self._moments], self.observation_space)
        last = self._moments[-1]
        end = f"\nThe episode is over: {last.end}" if last.end else ""
        return _describe(self._env, self._params, last) + end

    def _with_people(self, people: Any) -> Any:
        params = override(self._env, self._params, people=people)
        if _signature(params) != _signature(self._params):
            raise ValueError(
                "people(key) must make people of one family with the same shapes and labels at every "
                f"reset; it made {self._params.people!r} before and {params.people!r} now"
            )
        return params


# --- shared with the vector environment -----------------------------------------------------------


def build(env: str | Environment, params: Any, overrides: dict[str, Any]) -> tuple[Environment, Any]:
    """The environment and its checked parameters.

    Args:
        env: An id or an environment.
        params: Parameters; the defaults of the id or of the environment if None.
        overrides: Parameters to change, by name.

    Raises:
        ValueError: As :func:`qmind_jax.registry.make`, or if a parameter that is one number is an
            array.
        TypeError: As :func:`qmind_jax.registry.make`, or if ``env`` is neither an id nor an
            environment.
    """
    if isinstance(env, str):
        env, defaults = make(env)
    elif isinstance(env, Environment):
        defaults = env.default_params
    else:
        raise TypeError(f"env must be an id or an environment of qmind_jax, got {env!r}")
    params = override(env, defaults if params is None else params, **overrides)
    # Parameters with an axis of their own are for jax.vmap: here they would make the reward an array.
    for name in (field.name for field in dataclasses.fields(params) if field.name != "people"):
        shape = np.shape(getattr(params, name))
        if shape and not np.shape(getattr(defaults, name)):
            raise ValueError(f"{name} must be one number here, got an array of shape {shape}")
    return env, params


def draw_key(generator: np.random.Generator) -> np.ndarray:
    """The words of a Threefry key, uint32 of shape ``(2,)``."""
    return generator.integers(2**32, size=2, dtype=np.uint32)


def step_key(words: jax.Array, time: jax.Array) -> jax.Array:
    """The JAX key of step ``time``, with the reset as step 0."""
    return jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), time)


def read_options(
    env: Environment, params: Any, options: dict[str, Any], lanes: int | None = None
) -> dict[str, np.ndarray]:
    """Turn options of ``reset`` into the uniform numbers that bring them about.

    Args:
        env: The environment.
        params: Its parameters.
        options: Index or name by option; with lanes also a sequence of one per lane.
        lanes: Number of lanes, or None where there are none.

    Returns:
        float32 arrays of shape ``()``, or ``(lanes,)`` where a sequence was given.

    Raises:
        ValueError: For an unknown option, or a value that is none of its outcomes.
    """
    known = {name: FIXABLE_DRAWS[name](params.people) for name in _fixable(env)}
    fixed = {}
    for option, value in options.items():
        if option not in known:
            raise ValueError(unknown("option", option, known if lanes is None else [*known, "reset_mask"]))
        outcomes = known[option]
        if lanes is not None and isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
            if len(value) != lanes:
                raise ValueError(
                    f"options[{option!r}] must be one value or a sequence of {lanes}, one per lane; "
                    f"got {len(value)}"
                )
            index = np.array([_outcome(option, item, outcomes) for item in value])
        else:
            index = _outcome(option, value, outcomes)
        fixed[option] = np.asarray((index + 0.5) / len(outcomes), np.float32)
    return fixed


def fix_draws(noise: Any, fixed: dict[str, jax.Array]) -> Any:
    """The noise with some of its fields replaced, wherever in its tree they stand."""
    return jax.tree_util.tree_map_with_path(
        lambda path, value: jnp.broadcast_to(fixed.get(_field_name(path), value), value.shape), noise
    )


def state_info(state: Any) -> dict[str, jax.Array]:
    """The entries of ``info`` that the state of one lane determines, also where it is wrapped in others."""
    info = {}
    for node in jax.tree.leaves(state, is_leaf=lambda node: type(node) in STATE_INFO):
        if type(node) in STATE_INFO:
            info |= STATE_INFO[type(node)](node)
    return info


@functools.cache
def _fixable(env: Environment) -> list[str]:
    noise = jax.eval_shape(env.sample_noise, jax.eval_shape(lambda: jax.random.key(0)))
    drawn = [_field_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(noise)]
    return [name for name in FIXABLE_DRAWS if name in drawn]


def _field_name(path: tuple[Any, ...]) -> str:
    return getattr(path[-1], "name", "") if path else ""


def _outcome(option: str, value: Any, outcomes: Sequence[Any]) -> int:
    if isinstance(value, str) and value in outcomes:
        return outcomes.index(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < len(outcomes):
        return int(value)
    names = "" if isinstance(outcomes, range) else f" or one of {list(outcomes)}"
    raise ValueError(
        f"options[{option!r}] must be an index in 0 .. {len(outcomes) - 1}{names}, got {value!r}"
    )


# --- the kernels of one lane ----------------------------------------------------------------------
#
# Python's part of a step grows with the number of arrays that go in and out, and would soon be most
# of it. What an episode carries from step to step, and what a step shows to Python, therefore travel
# as one array of bytes each.


@functools.partial(jax.jit, static_argnames=("env",))
def _start(env: Environment, words: jax.Array, fixed: dict[str, jax.Array], params: Any) -> tuple[Any, Any]:
    state = env.initial(fix_draws(env.sample_noise(step_key(words, 0)), fixed), params)
    return (words, jnp.uint32(0), state), (env.observation(state, params), state_info(state))


@functools.partial(jax.jit, static_argnames=("env",))
def _advance(env: Environment, carry: Any, action: jax.Array, params: Any) -> tuple[Any, Any]:
    words, time, state = carry
    time = time + np.uint32(1)
    after = env.transition(env.sample_noise(step_key(words, time)), state, action, params)
    truncated = env.is_truncated(after.state, params)
    observation = env.observation(after.state, params)
    seen = (observation, after.reward, after.terminated, truncated, after.info)
    return (words, time, after.state), seen


@functools.partial(jax.jit, static_argnames=("env",))
def _start_packed(
    env: Environment, words: jax.Array, fixed: dict[str, jax.Array], params: Any
) -> tuple[jax.Array, jax.Array]:
    carry, seen = _start(env, words, fixed, params)
    return _pack(carry), _pack(seen)


@functools.partial(jax.jit, static_argnames=("env",))
def _advance_packed(
    env: Environment, octets: jax.Array, action: jax.Array, params: Any
) -> tuple[jax.Array, jax.Array]:
    like, _ = _start.eval_shape(env, np.zeros(2, np.uint32), {}, params)
    carry, seen = _advance(env, _unpack(octets, like), action, params)
    return _pack(carry), _pack(seen)


def _pack(tree: Any) -> jax.Array:
    """All leaves of a tree as one array of bytes."""
    octets = []
    for leaf in jax.tree.leaves(tree):
        if jnp.iscomplexobj(leaf):
            leaf = jnp.stack([leaf.real, leaf.imag], axis=-1)
        elif leaf.dtype == jnp.bool_:
            leaf = leaf.astype(jnp.uint8)
        octets.append(lax.bitcast_convert_type(leaf, jnp.uint8).ravel())
    return jnp.concatenate(octets)


def _unpack(octets: jax.Array, like: Any) -> Any:
    """The tree that :func:`_pack` packed, of the shapes and dtypes of ``like``."""
    shapes, tree = jax.tree.flatten(like)
    leaves, start = [], 0
    for shape in shapes:
        size = shape.dtype.itemsize
        part = octets[start : start + size * shape.size]
        start += size * shape.size
        if jnp.issubdtype(shape.dtype, jnp.complexfloating):
            pair = lax.bitcast_convert_type(
                part.reshape(*shape.shape, 2, size // 2), jnp.finfo(shape.dtype).dtype
            )
            leaves.append(lax.complex(pair[..., 0], pair[..., 1]))
        elif size == 1:
            leaves.append(part.reshape(shape.shape).astype(shape.dtype))
        else:
            leaves.append(lax.bitcast_convert_type(part.reshape(*shape.shape, size), shape.dtype))
    return jax.tree.unflatten(tree, leaves)


def _layout(seen: Any) -> np.dtype:
    """Where each leaf stands in the bytes of :func:`_pack`."""
    leaves = jax.tree.leaves(seen)
    return np.dtype([(f"leaf{i}", leaf.dtype, leaf.shape) for i, leaf in enumerate(leaves)])


def _signature(params: Any) -> tuple[Any, ...]:
    """What a compilation depends on."""
    return jax.tree.structure(params), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(params)]


def _read_action(action: Any, size: int) -> int:
    if type(action) is not int:
        array = np.asarray(action)
        if array.dtype.kind not in "iu":
            raise TypeError(f"action must be an integer in 0 .. {size - 1}, got {action!r}")
        if array.shape != ():
            raise ValueError(f"action must be one integer, got {action!r} of shape {array.shape}")
        action = int(array)
    if not 0 <= action < size:
        raise ValueError(f"action must lie in 0 .. {size - 1}, got {action}")
    return action


# --- rendering ------------------------------------------------------------------------------------


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


def _strip_chart(history: Sequence[np.ndarray], space: gymnasium.spaces.Box) -> np.ndarray:
    green, red, grey = np.array([[40, 160, 80], [200, 60, 60], [225, 225, 225]], np.float32)
    bound = np.maximum(np.abs(space.low), np.abs(space.high)).ravel()
    values = np.stack([observation.ravel() / bound for observation in history], axis=1)[..., None]
    strength = np.abs(values)
    colours = np.where(values > 0, green, red) * strength + grey * (1.0 - strength)
    cells = np.pad(colours, [(0, 0), (0, COLUMNS - len(history)), (0, 0)], constant_values=255)
    image = cells.astype(np.uint8).repeat(CELL, axis=0).repeat(CELL, axis=1)
    image[::CELL] = 255
    image[:, ::CELL] = 255
    return image
