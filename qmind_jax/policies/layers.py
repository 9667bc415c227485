"""Layers over columns: features lie along the first axis, whatever there is much of along the last.

So the long axis is the one that a processor runs along, in products, in activations and in sums over features
alike; a gradient step takes a quarter less time than with features last.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

# Gaussian rather than orthogonal: an orthogonal start needs a QR decomposition of every layer, and several of
# those at once, as many seeds ask for, were seen to deadlock XLA on a two-core CPU.


def gaussian(gain: float) -> nn.initializers.Initializer:
    """Independent float32 weights with the variance that keeps signals at ``gain`` times their size."""
    return nn.initializers.variance_scaling(gain**2, "fan_in", "normal", dtype=jnp.float32)


HIDDEN_GAIN = 2.0**0.5
"""For layers followed by an activation."""


class Dense(nn.Module):
    """A linear layer.

    Attributes:
        features: Number of outputs.
        gain: Size of the outputs relative to the inputs at the start.
    """

    features: int
    gain: float = HIDDEN_GAIN

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """``(inputs, columns)`` to ``(features, columns)``."""
        kernel = self.param("kernel", gaussian(self.gain), (inputs.shape[0], self.features))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,), jnp.float32)
        return kernel.T @ inputs + bias[:, None]


class GRU(nn.Module):
    """Gated recurrent unit over a sequence (Cho et al. 2014), with resets.

    The products with inputs are taken out of the loop over time and done at once.

    Attributes:
        features: Size of the hidden state.
    """

    features: int

    @nn.compact
    def __call__(self, hidden: jax.Array, inputs: jax.Array, resets: jax.Array) -> jax.Array:
        """Run over a sequence.

        Args:
            hidden: State before the sequence, ``(features, lanes)``.
            inputs: ``(inputs, steps * lanes)``, one step after the other.
            resets: Bool ``(steps, lanes)``: start from a zero state at this step.

        Returns:
            States ``(steps, features, lanes)``.
        """

        def by_step(columns: jax.Array) -> jax.Array:
            return jnp.moveaxis(columns.reshape(-1, *resets.shape), 1, 0)

        gate_inputs = by_step(Dense(2 * self.features)(inputs))
        candidate_inputs = by_step(Dense(self.features)(inputs))
        gate_kernel = self.param("gate_kernel", gaussian(1.0), (self.features, 2 * self.features))
        candidate_kernel = self.param("candidate_kernel", gaussian(1.0), (self.features, self.features))
        return recur(gate_kernel, candidate_kernel, hidden, gate_inputs, candidate_inputs, resets)


@jax.custom_vjp
def recur(
    gate_kernel: jax.Array,
    candidate_kernel: jax.Array,
    hidden: jax.Array,
    gate_inputs: jax.Array,
    candidate_inputs: jax.Array,
    resets: jax.Array,
) -> jax.Array:
    """The loop of a :class:`GRU` over time.

    Its gradient is written out, because automatic differentiation adds up the gradients of the kernels step
    by step; here they are one product over all steps.

    Args:
        gate_kernel: ``(features, 2 * features)``, for the update gate and the reset gate.
        candidate_kernel: ``(features, features)``.
        hidden: ``(features, lanes)``.
        gate_inputs: ``(steps, 2 * features, lanes)``.
        candidate_inputs: ``(steps, features, lanes)``.
        resets: Bool ``(steps, lanes)``.

    Returns:
        States ``(steps, features, lanes)``.
    """
    return _recur(gate_kernel, candidate_kernel, hidden, gate_inputs, candidate_inputs, resets)[0]


def _recur(
    gate_kernel: jax.Array,
    candidate_kernel: jax.Array,
    hidden: jax.Array,
    gate_inputs: jax.Array,
    candidate_inputs: jax.Array,
    resets: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """States after, and the states before, both gates and the candidates, of every step."""

    def step(hidden: jax.Array, now: tuple[jax.Array, ...]) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        gates, candidate, reset = now
        before = jnp.where(reset, 0.0, hidden)
        update, forget = jnp.split(nn.sigmoid(gates + gate_kernel.T @ before), 2)
        proposal = jnp.tanh(candidate + candidate_kernel.T @ (forget * before))
        after = update * before + (1.0 - update) * proposal
        return after, (after, (before, update, forget, proposal))

    return lax.scan(step, hidden, (gate_inputs, candidate_inputs, resets))[1]


def _recur_forward(*args: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    states, course = _recur(*args)
    return states, (*args[:2], args[-1], course)


def _recur_backward(kept: tuple[jax.Array, ...], of_states: jax.Array) -> tuple[jax.Array | None, ...]:
    gate_kernel, candidate_kernel, resets, course = kept

    def step(
        of_later: jax.Array, now: tuple[jax.Array, ...]
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        of_state, reset, (before, update, forget, proposal) = now
        of_after = of_later + of_state
        of_candidate = of_after * (1.0 - update) * (1.0 - proposal**2)
        of_forgotten = candidate_kernel @ of_candidate
        of_update = of_after * (before - proposal) * update * (1.0 - update)
        of_forget = of_forgotten * before * forget * (1.0 - forget)
        of_gates = jnp.concatenate([of_update, of_forget])
        of_before = of_after * update + of_forgotten * forget + gate_kernel @ of_gates
        return jnp.where(reset, 0.0, of_before), (of_gates, of_candidate)

    begin = jnp.zeros_like(of_states[0])
    of_hidden, (of_gates, of_candidates) = lax.scan(step, begin, (of_states, resets, course), reverse=True)
    before, _, forget, _ = course
    of_gate_kernel = columns(before) @ columns(of_gates).T
    of_candidate_kernel = columns(forget * before) @ columns(of_candidates).T
    return of_gate_kernel, of_candidate_kernel, of_hidden, of_gates, of_candidates, None


recur.defvjp(_recur_forward, _recur_backward)


def columns(sequence: jax.Array) -> jax.Array:
    """``(steps, features, lanes)`` to ``(features, steps * lanes)``."""
    return jnp.moveaxis(sequence, 1, 0).reshape(sequence.shape[1], -1)
