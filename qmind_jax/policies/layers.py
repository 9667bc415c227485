"""Layers over columns: features lie along the first axis, whatever there is much of along the last.

So the long axis is the one that a processor runs along, in products, in activations and in sums over features
alike; a gradient step takes a quarter less time than with features last.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

from qmind_jax.noise import once

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
            resets: Bool ``(steps * lanes,)``: start from a zero state at this step.

        Returns:
            States ``(features, steps * lanes)``.
        """
        from_inputs = Dense(3 * self.features)(inputs)
        kernel = self.param("kernel", gaussian(1.0), (self.features, 3 * self.features))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.features,), jnp.float32)
        return recur(kernel, bias, hidden, from_inputs, resets)


@jax.custom_vjp
def recur(
    kernel: jax.Array, bias: jax.Array, hidden: jax.Array, from_inputs: jax.Array, resets: jax.Array
) -> jax.Array:
    """The loop of a :class:`GRU` over time.

    Its gradient is written out, so that the loop back through time holds one product and little else: what
    can be said of all steps at once stands outside of it, the gradient of the kernel above all. Reverse mode
    only: ``jax.jvp`` raises.

    Args:
        kernel: ``(features, 3 * features)``, for update gate, reset gate and candidate.
        bias: ``(features,)``, of the candidate, inside the reset gate.
        hidden: ``(features, lanes)``.
        from_inputs: What the inputs add before the activations, ``(3 * features, steps * lanes)``.
        resets: Bool ``(steps * lanes,)``.

    Returns:
        States ``(features, steps * lanes)``.
    """
    return _recur(kernel, bias, hidden, from_inputs, resets)[0]


def _recur(
    kernel: jax.Array, bias: jax.Array, hidden: jax.Array, from_inputs: jax.Array, resets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """States, and the products with the states before, ``(3 * features, steps * lanes)``."""
    lanes, transposed = hidden.shape[1], kernel.T

    def step(carry: tuple[jax.Array, ...], begin: jax.Array) -> tuple[tuple[jax.Array, ...], None]:
        hidden, states, products = carry
        before = jnp.where(_columns_at(resets, begin, lanes), 0.0, hidden)
        product = transposed @ before
        update, _, _, candidate = _gates(product, _columns_at(from_inputs, begin, lanes), bias)
        after = update * before + (1.0 - update) * candidate
        return (
            after,
            _with_columns_at(states, after, begin),
            _with_columns_at(products, product, begin),
        ), None

    nothing = jnp.zeros((len(hidden), len(resets)), hidden.dtype)
    (_, states, products), _ = lax.scan(
        step, (hidden, nothing, jnp.zeros_like(from_inputs)), jnp.arange(0, len(resets), lanes)
    )
    return states, products


def _gates(
    products: jax.Array, from_inputs: jax.Array, bias: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Update gate, reset gate, what the latter acts on, and the candidate, ``(features, columns)`` each."""
    features = len(bias)
    # The logistic function, by the faster tangent. Once, as XLA on CPU would otherwise compute both gates
    # again, one entry at a time, where they meet the candidate.
    gates = once(0.5 + 0.5 * jnp.tanh(0.5 * (from_inputs[: 2 * features] + products[: 2 * features])))
    update, forget = gates[:features], gates[features:]
    gated = products[2 * features :] + bias[:, None]
    return update, forget, gated, jnp.tanh(from_inputs[2 * features :] + forget * gated)


def _recur_forward(*args: jax.Array) -> tuple[jax.Array, Any]:
    states, products = _recur(*args)
    return states, (*args, states, products)


def _recur_backward(kept: Any, of_states: jax.Array) -> tuple[jax.Array | None, ...]:
    kernel, bias, hidden, from_inputs, resets, states, products = kept
    lanes = hidden.shape[1]
    before = jnp.where(resets, 0.0, jnp.concatenate([hidden, states[:, :-lanes]], axis=1))
    update, forget, gated, candidate = _gates(products, from_inputs, bias)
    # What each part of the product with the state gets of the gradient of the state after it.
    to_candidate = (1.0 - update) * (1.0 - candidate**2)
    to_update = (before - candidate) * update * (1.0 - update)
    to_forget = to_candidate * gated * forget * (1.0 - forget)
    shares = jnp.stack([to_update, to_forget, to_candidate * forget])

    def step(
        carry: tuple[jax.Array, jax.Array], begin: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], None]:
        of_later, of_all = carry
        of_after = of_later + _columns_at(of_states, begin, lanes)
        of_products = (of_after * _columns_at(shares, begin, lanes)).reshape(-1, lanes)
        of_before = of_after * _columns_at(update, begin, lanes) + kernel @ of_products
        of_before = jnp.where(_columns_at(resets, begin, lanes), 0.0, of_before)
        return (of_before, _with_columns_at(of_all, of_after, begin)), None

    carry = jnp.zeros_like(hidden), jnp.zeros_like(states)
    (of_hidden, of_all), _ = lax.scan(step, carry, jnp.arange(0, len(resets), lanes), reverse=True)
    of_products = (of_all * shares).reshape(-1, len(resets))
    of_kernel = before @ of_products.T
    of_bias = of_products[-len(bias) :].sum(axis=1)
    of_from_inputs = jnp.concatenate([of_products[: -len(bias)], of_all * to_candidate])
    return of_kernel, of_bias, of_hidden, of_from_inputs, None


recur.defvjp(_recur_forward, _recur_backward)


def _columns_at(columns: jax.Array, begin: jax.Array, lanes: int) -> jax.Array:
    """The columns of one step."""
    return lax.dynamic_slice_in_dim(columns, begin, lanes, axis=-1)


def _with_columns_at(columns: jax.Array, new: jax.Array, begin: jax.Array) -> jax.Array:
    """With other columns at one step."""
    return lax.dynamic_update_slice_in_dim(columns, new, begin, axis=-1)
