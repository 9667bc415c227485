"""Layers over columns: features lie along the first axis, whatever there is much of along the last.

So the long axis is the one that a processor runs along, in products, in activations and in sums over features
alike; a gradient step takes a quarter less time than with features last.
"""

from typing import Any

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

    In the form of cuDNN and of flax's ``GRUCell``, where the reset gate acts on the product with the state:
    there is one product per step. Those with inputs are taken out of the loop over time.

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
        from_inputs = Dense(3 * self.features)(inputs)
        from_inputs = jnp.moveaxis(from_inputs.reshape(-1, *resets.shape), 1, 0)
        kernel = self.param("kernel", gaussian(1.0), (self.features, 3 * self.features))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,), jnp.float32)
        return recur(kernel, bias, hidden, from_inputs, resets)


@jax.custom_vjp
def recur(
    kernel: jax.Array, bias: jax.Array, hidden: jax.Array, from_inputs: jax.Array, resets: jax.Array
) -> jax.Array:
    """The loop of a :class:`GRU` over time.

    Its gradient is written out, because automatic differentiation adds up the gradient of the kernel step by
    step; here it is one product over all steps. Reverse mode only: ``jax.jvp`` raises.

    Args:
        kernel: ``(features, 3 * features)``, for update gate, reset gate and candidate.
        bias: ``(features,)``, of the candidate, inside the reset gate.
        hidden: ``(features, lanes)``.
        from_inputs: What the inputs add before the activations, ``(steps, 3 * features, lanes)``.
        resets: Bool ``(steps, lanes)``.

    Returns:
        States ``(steps, features, lanes)``.
    """
    return _recur(kernel, bias, hidden, from_inputs, resets)[0]


def _recur(
    kernel: jax.Array, bias: jax.Array, hidden: jax.Array, from_inputs: jax.Array, resets: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """States after every step, and what its gradient needs.

    That is the state before, both gates, what the reset gate acts on, and the candidate.
    """

    def step(hidden: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, Any]:
        from_input, reset = now
        before = jnp.where(reset, 0.0, hidden)
        from_state = transposed @ before
        # The logistic function, by the faster tangent.
        gates = 0.5 + 0.5 * jnp.tanh(0.5 * (from_input[: 2 * features] + from_state[: 2 * features]))
        update, forget = gates[:features], gates[features:]
        gated = from_state[2 * features :] + bias[:, None]
        candidate = jnp.tanh(from_input[2 * features :] + forget * gated)
        after = update * before + (1.0 - update) * candidate
        return after, (after, (before, gates, gated, candidate))

    features, transposed = len(bias), kernel.T
    return lax.scan(step, hidden, (from_inputs, resets))[1]


def _recur_forward(*args: jax.Array) -> tuple[jax.Array, Any]:
    states, course = _recur(*args)
    kernel, *_, resets = args
    return states, (kernel, resets, course)


def _recur_backward(kept: Any, of_states: jax.Array) -> tuple[jax.Array | None, ...]:
    kernel, resets, course = kept

    def step(of_later: jax.Array, now: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        of_state, reset, (before, gates, gated, candidate) = now
        update, forget = jnp.split(gates, 2)
        of_after = of_later + of_state
        of_candidate = of_after * (1.0 - update) * (1.0 - candidate**2)
        of_update = of_after * (before - candidate) * update * (1.0 - update)
        of_forget = of_candidate * gated * forget * (1.0 - forget)
        of_from_state = jnp.concatenate([of_update, of_forget, of_candidate * forget])
        of_from_input = jnp.concatenate([of_update, of_forget, of_candidate])
        of_before = of_after * update + kernel @ of_from_state
        return jnp.where(reset, 0.0, of_before), (of_from_state, of_from_input)

    sequence = (of_states, resets, course)
    of_hidden, (of_from_states, of_from_inputs) = lax.scan(
        step, jnp.zeros_like(of_states[0]), sequence, reverse=True
    )
    of_products = columns(of_from_states)
    of_kernel = columns(course[0]) @ of_products.T
    of_bias = of_products[2 * len(kernel) :].sum(axis=1)
    return of_kernel, of_bias, of_hidden, of_from_inputs, None


recur.defvjp(_recur_forward, _recur_backward)


def columns(sequence: jax.Array) -> jax.Array:
    """``(steps, features, lanes)`` to ``(features, steps * lanes)``."""
    return jnp.moveaxis(sequence, 1, 0).reshape(sequence.shape[1], -1)
