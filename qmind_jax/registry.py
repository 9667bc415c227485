"""Environment ids and :func:`make`."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from qmind_jax.environment import Environment
from qmind_jax.envs.clarification import Clarification, ClarificationParams
from qmind_jax.envs.trust_handover import TrustHandover, TrustHandoverParams
from qmind_jax.names import unknown
from qmind_jax.people.population import as_population
from qmind_jax.people.published import default_domain, hard_domain
from qmind_jax.people.trust import TrustQubit


@dataclasses.dataclass(frozen=True)
class Registration:
    """One environment id.

    Attributes:
        environment: The environment class.
        params: Makes the parameters of this id.
        summary: One line for listings.
    """

    environment: type[Environment]
    params: Callable[[], Any]
    summary: str


REGISTRY: dict[str, Registration] = {
    "Clarification-v0": Registration(
        Clarification,
        lambda: ClarificationParams(people=as_population(default_domain())),
        "ask what a person means, then act; the published domain, where one question is enough",
    ),
    "ClarificationHard-v0": Registration(
        Clarification,
        lambda: ClarificationParams(people=as_population(hard_domain()), ask_cost=0.1),
        "questions of rank 2 at a lower price: order, repeats and memory matter",
    ),
    "TrustHandover-v0": Registration(
        TrustHandover,
        lambda: TrustHandoverParams(people=as_population(TrustQubit())),
        "hand over objects to a person whose trust decides; the published costs, where waiting is a trap",
    ),
    "TrustHandoverRecovery-v0": Registration(
        TrustHandover,
        lambda: TrustHandoverParams(
            people=as_population(TrustQubit()), fail_cost=2.0, slow_cost=0.2, ask_cost=0.2
        ),
        "lower costs: winning back lost trust pays",
    ),
}


def make(env_id: str, **overrides: Any) -> tuple[Environment, Any]:
    """Make an environment and its parameters.

    Args:
        env_id: One of :data:`REGISTRY`, such as ``"TrustHandover-v0"``.
        **overrides: Parameters to change, by name. ``people`` may be a population, one person, or a
            sequence of people.

    Returns:
        The environment (without data) and its parameters (a pytree of arrays).

    Raises:
        ValueError: For an unknown id or parameter name (the nearest known one is named), or a value
            that makes no sense.
        TypeError: If ``people`` are not of a family that fits the environment.
    """
    if env_id not in REGISTRY:
        raise ValueError(unknown("environment id", env_id, REGISTRY))
    registration = REGISTRY[env_id]
    env = registration.environment()
    return env, override(env, registration.params(), **overrides)


def override(env: Environment, params: Any, /, **overrides: Any) -> Any:
    """Replace parameters by name, check the result, and turn every number into an array.

    Raises:
        ValueError: As :func:`make`.
        TypeError: As :func:`make`.
    """
    known = [field.name for field in dataclasses.fields(params)]
    for name in overrides:
        if name not in known:
            raise ValueError(unknown("parameter", name, known))
    if "people" in overrides:
        overrides["people"] = as_population(overrides["people"])
    params = params.replace(**overrides)
    env.check_params(params)
    return jax.tree.map(_as_array, params)


def _as_array(value: Any) -> jax.Array:
    """An array of JAX's default integer or float type, never weakly typed."""
    array = jnp.asarray(value)
    if jnp.issubdtype(array.dtype, jnp.integer):
        return array.astype(jnp.int32)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return array.astype(jnp.result_type(float))
    return array
