"""Which state of trust follows which, for one person: hand-over as a finite problem."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from qmind_jax.people.trust import BetaTrust, TrustingPerson, TrustState, p_trust
from qmind_jax.policies.optimal.trust_mesh import Blend, Mesh

EVENTS = SUCCESS, FAILURE, WAIT = range(3)

# Node numbers are int32 arrays of NumPy in both precisions: layouts are shared between them, and JAX
# remembers for an array of int64 which of the two types it had first.


@struct.dataclass
class TrustGraph:
    """States of trust of one person; node 0 is the start.

    Attributes:
        p_trust: Probability of trust at each of n nodes, float ``(n,)``.
        between: For each of ``EVENTS``: the states that it leads to and that are no nodes themselves.
    """

    p_trust: jax.Array
    between: tuple[Blend, ...]


class TrustLayout(Protocol):
    """Which nodes a graph has and what leads to what; the same for everybody."""

    num_nodes: int

    def graph(self, people: TrustingPerson) -> TrustGraph:
        """The graph of a population of one."""

    def after(self, graph: TrustGraph, event: int, values: jax.Array) -> jax.Array:
        """The value, for each node, of the state after one of ``EVENTS``, ``(n,)``."""

    def after_answer(self, yes: bool, values: jax.Array) -> jax.Array:
        """The value, for each node, of the state after an answer, ``(n,)`` or a scalar."""

    def place(self, people: TrustingPerson, trust: TrustState) -> Blend:
        """Any state of trust of a population of one as a mean of nodes."""

    def unevenness(self, values: jax.Array) -> jax.Array:
        """Bound, by node, on what interpolation of ``values`` is wrong by, ``(n,)``."""


class CountLayout:
    """One node for every number of successes and failures: exact where only these matter (Beta trust).

    Args:
        n_steps: Length of an episode.
    """

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps
        self.num_nodes = (n_steps + 1) * (n_steps + 2) // 2
        here = np.arange(self.num_nodes, dtype=np.int32)
        outcomes = np.repeat(np.arange(n_steps + 1, dtype=np.int32), np.arange(1, n_steps + 2))
        # The longest histories have no successors; they are reached when time is up.
        is_last = outcomes == n_steps
        success = np.where(is_last, here, here + outcomes + 1)
        self._after = {SUCCESS: success, FAILURE: np.where(is_last, here, success + 1), WAIT: here}

    def graph(self, people: TrustingPerson) -> TrustGraph:
        """Outcome after outcome; those with k outcomes follow in the order of their failures."""
        trust = jax.tree.map(jnp.atleast_1d, people.initial_trust(0))
        levels = [trust]
        for _ in range(self.n_steps):
            succeeded = people.after_outcome(trust, 0, True)
            failed = people.after_outcome(jax.tree.map(lambda leaf: leaf[-1:], trust), 0, False)
            trust = _joined(succeeded, failed)
            levels.append(trust)
        return TrustGraph(p_trust(_joined(*levels)), between=())

    def after(self, graph: TrustGraph, event: int, values: jax.Array) -> jax.Array:
        """One more outcome."""
        return values[self._after[event]]

    def after_answer(self, yes: bool, values: jax.Array) -> jax.Array:
        """Nothing changes."""
        return values

    def place(self, people: BetaTrust, trust: TrustState) -> Blend:
        """Counts the successes and failures that are behind the experience."""
        z, experience = trust
        start, start_experience = people.initial_trust(0)
        gained = [
            0.5 * ((1.0 + sign * z) * experience - (1.0 + sign * start) * start_experience)
            for sign in (1, -1)
        ]
        # Outcomes without weight leave no trace, and it does not matter how many there were.
        weights = [jnp.where(weight > 0, weight, jnp.inf) for weight in (people.w_s[0], people.w_f[0])]
        successes, failures = (jnp.rint(g / w).astype(int) for g, w in zip(gained, weights, strict=True))
        outcomes = jnp.clip(successes + failures, 0, self.n_steps)
        node = outcomes * (outcomes + 1) // 2 + jnp.clip(failures, 0, outcomes)
        return Blend(node[None], jnp.ones_like(z)[None])

    def unevenness(self, values: jax.Array) -> jax.Array:
        """Nothing is interpolated."""
        return jnp.zeros_like(values)


class Waits(NamedTuple):
    """How waiting is followed exactly, where it changes trust at all.

    Attributes:
        at_start: Waits at the start.
        depth_after: Hand-overs that are followed after these.
        between: Waits between hand-overs.
    """

    at_start: int
    depth_after: int
    between: int


class MeshLayout:
    """Exact nodes for what can follow within a few steps of the start or of an answer; a mesh for the rest.

    For people whose trust is certain after an answer, and whose certainty waiting does not change. The value
    at the start then meets the mesh only after several hand-overs without a question.

    Args:
        mesh: The mesh.
        depth: Hand-overs after the start or an answer that are followed exactly, at least 0.
        waits: Waits that are; None if waiting never changes trust.
    """

    def __init__(self, mesh: Mesh, depth: int, waits: Waits | None = None) -> None:
        self.mesh = mesh
        self._num_waits = waits.at_start if waits else 0
        self._levels, child = _words(depth, waits or Waits(0, 0, 0))
        self._num_exact = len(child)
        nodes_of_mesh = np.full((mesh.num_nodes, len(EVENTS)), -1)
        child = np.concatenate([child, nodes_of_mesh])
        self.num_nodes = len(child)
        if waits is None:
            child[:, WAIT] = np.arange(len(child))
        # Per event: the nodes after which it leads between nodes, the nodes that it leads to elsewhere, and
        # where each node finds its successor when these are written before those.
        child = child.astype(np.int32)
        self._between = [np.flatnonzero(child[:, event] < 0).astype(np.int32) for event in EVENTS]
        self._nodes_after = [column[column >= 0] for column in child.T]
        self._order = [
            np.argsort(np.argsort(column < 0, kind="stable")).astype(np.int32) for column in child.T
        ]

    def graph(self, people: TrustingPerson) -> TrustGraph:
        """Start, certain trust, certain distrust, what follows them, then the mesh."""
        start = people.initial_trust(0)
        twice = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, 2), start)
        certain = people.after_answer(twice, 0, jnp.array([True, False]))
        _, waiting = jax.lax.scan(
            lambda trust, _: (people.after_wait(trust, 0), trust), start, length=self._num_waits + 1
        )
        exact = _joined(waiting, certain)
        for parent, event in self._levels:
            before = jax.tree.map(lambda leaf, parent=parent: leaf[parent], exact)
            outcome, waited = people.after_outcome(before, 0, event == SUCCESS), people.after_wait(before, 0)
            after = jax.tree.map(lambda o, w, event=event: jnp.where(event == WAIT, w, o), outcome, waited)
            exact = _joined(exact, after)
        trust = _joined(exact, self.mesh.nodes(exact[0].dtype))
        between = []
        for event, nodes in zip(EVENTS, self._between, strict=True):
            before = jax.tree.map(lambda leaf, nodes=nodes: leaf[nodes], trust)
            waits = event == WAIT
            after = (
                people.after_wait(before, 0) if waits else people.after_outcome(before, 0, event == SUCCESS)
            )
            blend = self.mesh.locate(*after)
            between.append(blend.replace(index=blend.index + self._num_exact))
        return TrustGraph(p_trust(trust), tuple(between))

    def after(self, graph: TrustGraph, event: int, values: jax.Array) -> jax.Array:
        """A node where there is one, interpolation in the mesh where not."""
        exact = values[self._nodes_after[event]]
        return jnp.concatenate([exact, graph.between[event].of(values)])[self._order[event]]

    def after_answer(self, yes: bool, values: jax.Array) -> jax.Array:
        """Certainty."""
        return values[self._num_waits + (1 if yes else 2)]

    def place(self, people: TrustingPerson, trust: TrustState) -> Blend:
        """Certainty is a node; everything else lies in the mesh."""
        z, x = trust
        blend = self.mesh.locate(z, x)
        is_certain = (jnp.abs(z) >= 1.0) & (x == 0.0)
        certain = self._num_waits + jnp.where(z > 0, 1, 2)
        return blend.replace(index=jnp.where(is_certain, certain, blend.index + self._num_exact))

    def unevenness(self, values: jax.Array) -> jax.Array:
        """That of the mesh."""
        exact, mesh = values[: self._num_exact], values[self._num_exact :]
        return jnp.concatenate([jnp.zeros_like(exact), self.mesh.unevenness(mesh)])


def _words(depth: int, waits: Waits) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """The exact nodes: the roots (start, the start after waits, both certainties) and words of events.

    Returns:
        For words of 1, 2, ... events: the nodes they continue and their last events. And the node after
        each event, int ``(n, 3)``, -1 where it is none of these.
    """
    chain = waits.at_start
    child = np.full((chain + 3, len(EVENTS)), -1)
    child[:chain, WAIT] = 1 + np.arange(chain)
    child[-2:, WAIT] = chain + np.array([1, 2])
    left = np.array([depth, *[waits.depth_after] * chain, depth, depth])
    waits_left = np.full(len(left), waits.between)
    # After all waits that can be followed one more is none of them.
    waits_left[chain] = 0
    children, levels, first = [child], [], 0
    while np.any(left > 0):
        may_wait = (waits_left > 0) & (children[-1][:, WAIT] < 0)
        allowed = np.stack([left > 0, left > 0, (left > 0) & may_wait], axis=1)
        parent, event = np.nonzero(allowed)
        children[-1][parent, event] = first + len(left) + np.arange(len(parent))
        levels.append(((first + parent).astype(np.int32), event))
        children.append(np.full((len(parent), len(EVENTS)), -1))
        first += len(left)
        left, waits_left = left[parent] - 1, waits_left[parent] - (event == WAIT)
    return levels, np.concatenate(children)


def _joined(*trusts: TrustState) -> TrustState:
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trusts)
