"""Trust hand-over: hand objects to a person whose trust decides whether it works.

Source: ``TrustHandoverEnv`` of quantum-mind. People and their trust are simulated.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnax.environments import spaces

from qmind_jax import noise as random
from qmind_jax.environment import Environment, Transition
from qmind_jax.envs.checks import check_cost, check_count, check_fraction, check_people
from qmind_jax.people.population import as_population
from qmind_jax.people.trust import TrustingPerson, TrustQubit, p_trust

HAND_OVER, SLOW, ASK, WAIT = range(4)
ACTION_NAMES = ("hand over", "hand over slowly", "ask about trust", "wait")


@struct.dataclass
class TrustHandoverNoise:
    """Uniform numbers in [0, 1), float32.

    Attributes:
        outcome: A hand-over works unless this is below its probability of failure; a question is
            answered "yes" if it is below the probability of trust.
        person: Which person the next episode has.
    """

    outcome: jax.Array
    person: jax.Array


@struct.dataclass
class TrustHandoverState:
    """State of one lane.

    Attributes:
        person: Index into the population, int32.
        z: Trust, float in [-1, 1]: the probability of trust is ``(1 + z) / 2``. Hidden.
        x: What else the person's family remembers (for a qubit the Bloch coherence). Hidden.
        outcome: Last hand-over, float32: +1 worked, -1 failed, 0 none yet.
        answer: Last answer, float32: +1 yes, -1 no, 0 none yet.
        time: Steps taken, int32.
    """

    person: jax.Array
    z: jax.Array
    x: jax.Array
    outcome: jax.Array
    answer: jax.Array
    time: jax.Array


@struct.dataclass
class TrustHandoverParams:
    """Parameters.

    Attributes:
        people: A population that trusts; each episode draws one person.
        n_steps: Length of an episode, at least 1.
        fail_cost: Cost of a failed hand-over.
        slow_cost: Extra cost of handing over slowly.
        ask_cost: Cost of a question.
        wait_cost: Cost of waiting one step.
        slow_factor: What a slow hand-over multiplies the probability of failure by, in [0, 1].
    """

    people: TrustingPerson
    n_steps: jax.Array | int = 20
    fail_cost: jax.Array | float = 10.0
    slow_cost: jax.Array | float = 1.0
    ask_cost: jax.Array | float = 0.5
    wait_cost: jax.Array | float = 0.3
    slow_factor: jax.Array | float = 0.5


class TrustHandover(Environment[TrustHandoverState, TrustHandoverParams, TrustHandoverNoise]):
    """Hand over objects, ask about trust, or wait, for a fixed number of steps.

    **Actions** (``Discrete(4)``): 0 hand over, 1 hand over slowly, 2 ask about trust, 3 wait.
    **Observation** (float32 ``(3,)``): last outcome and last answer in {-1, 0, +1}, and the fraction
    of the episode that has passed, in [0, 1].
    **Reward**: a hand-over gives +1 or ``-fail_cost``, less ``slow_cost`` if slow; asking costs
    ``ask_cost``, waiting ``wait_cost``. A hand-over fails with the probability of distrust, times
    ``slow_factor`` if slow.
    **End**: truncated after ``n_steps``; never terminated.
    **Info**: ``p_trust`` (float; trust after the step, hidden from the agent, for evaluation only).

    Inside ``jit`` an action outside the space is clipped into it.
    """

    @property
    def default_params(self) -> TrustHandoverParams:
        """The published person: ``TrustQubit(1.6, 0.8, 1.2, 0.3)``."""
        return TrustHandoverParams(people=as_population(TrustQubit()))

    def sample_noise(self, key: jax.Array, batch_shape: tuple[int, ...] = ()) -> TrustHandoverNoise:
        """One Threefry block per lane."""
        outcome, person, _ = random.uniforms(key, batch_shape)
        return TrustHandoverNoise(outcome=outcome, person=person)

    def initial(self, noise: TrustHandoverNoise, params: TrustHandoverParams) -> TrustHandoverState:
        """Draw a person."""
        person = random.choose(noise.person, len(params.people))
        z, x = params.people.initial_trust(person)
        nothing = jnp.float32(0.0)
        return TrustHandoverState(person=person, z=z, x=x, outcome=nothing, answer=nothing, time=jnp.int32(0))

    def transition(
        self,
        noise: TrustHandoverNoise,
        state: TrustHandoverState,
        action: jax.Array,
        params: TrustHandoverParams,
    ) -> Transition:
        """Hand over, ask or wait."""
        people, person, trust = params.people, state.person, (state.z, state.x)
        action = jnp.clip(action, HAND_OVER, WAIT)
        slow, hands_over, asks = action == SLOW, action <= SLOW, action == ASK

        trusts = p_trust(trust)
        p_fail = (1.0 - trusts) * jnp.where(slow, params.slow_factor, 1.0)
        success = noise.outcome >= p_fail
        yes = noise.outcome < trusts

        after_outcome = people.after_outcome(trust, person, success)
        after_answer = people.after_answer(trust, person, yes)
        after_wait = people.after_wait(trust, person)
        z, x = (
            jnp.where(hands_over, outcome, jnp.where(asks, answer, wait))
            for outcome, answer, wait in zip(after_outcome, after_answer, after_wait, strict=True)
        )
        handover_reward = jnp.where(success, 1.0, -params.fail_cost) - jnp.where(slow, params.slow_cost, 0.0)
        idle_reward = jnp.where(asks, -params.ask_cost, -params.wait_cost)
        reward = jnp.where(hands_over, handover_reward, idle_reward)

        over = self.is_truncated(state, params)
        moved = state.replace(
            z=z,
            x=x,
            outcome=jnp.where(hands_over, jnp.where(success, 1.0, -1.0), state.outcome),
            answer=jnp.where(asks, jnp.where(yes, 1.0, -1.0), state.answer),
            time=state.time + 1,
        )
        next_state = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, moved)
        info = self.state_info(next_state, params)
        return Transition(next_state, jnp.where(over, 0.0, reward), jnp.bool_(False), info)

    def observation(self, state: TrustHandoverState, params: TrustHandoverParams) -> jax.Array:
        """Last outcome, last answer, fraction of the episode."""
        # At least the time: if n_steps is lowered in mid-episode the fraction stays in its box. It also keeps
        # XLA from multiplying by a rounded reciprocal where n_steps happens to be a constant.
        length = jnp.maximum(params.n_steps, state.time)
        passed = state.time.astype(jnp.float32) / length.astype(jnp.float32)
        return jnp.stack([state.outcome, state.answer, passed])

    def is_truncated(self, state: TrustHandoverState, params: TrustHandoverParams) -> jax.Array:
        """Whether all steps have been taken."""
        return state.time >= params.n_steps

    def state_info(self, state: TrustHandoverState, params: TrustHandoverParams) -> dict[str, jax.Array]:
        """``p_trust``."""
        return {"p_trust": p_trust((state.z, state.x))}

    def is_terminated(self, state: TrustHandoverState, params: TrustHandoverParams) -> jax.Array:
        """Never: the episode only runs out of time."""
        return jnp.bool_(False)

    def action_space(self, params: TrustHandoverParams) -> spaces.Discrete:
        """``Discrete(4)``."""
        return spaces.Discrete(len(ACTION_NAMES))

    def observation_space(self, params: TrustHandoverParams) -> spaces.Box:
        """``Box([-1, -1, 0], [1, 1, 1])``."""
        low = jnp.array([-1.0, -1.0, 0.0], jnp.float32)
        return spaces.Box(low, jnp.ones(3, jnp.float32), (3,), jnp.float32)

    def check_params(self, params: TrustHandoverParams) -> None:
        """Raise if the people do not trust or a number makes no sense."""
        check_people(params.people, TrustingPerson)
        check_count("n_steps", params.n_steps)
        for name in ("fail_cost", "slow_cost", "ask_cost", "wait_cost"):
            check_cost(name, getattr(params, name))
        check_fraction("slow_factor", np.asarray(params.slow_factor))
