"""How finely hand-over is solved, and the layout of states that follows from it."""

import dataclasses
import functools

from qmind_jax.people.trust import BetaTrust, MarkovTrust, TrustingPerson, TrustQubit
from qmind_jax.policies.optimal.trust_graph import CountLayout, MeshLayout, TrustLayout, Waits
from qmind_jax.policies.optimal.trust_mesh import DiscMesh, IntervalMesh


@dataclasses.dataclass(frozen=True)
class Resolution:
    """How finely the states of trust are told apart; Beta trust is exact and needs none.

    Attributes:
        rings: Rings of the mesh on the Bloch disc, at least 2.
        sectors: Its sectors, even.
        cells: Cells of the mesh on [0, 1] (Markov trust), at least 2.
        hand_overs: Hand-overs in a row whose outcomes are followed exactly, after the start or an answer; two
            more for Markov trust, which a wait does not change, so that they cost little.
        hand_overs_after_wait: The same after waiting at the start.
        waits: Waits among these hand-overs that are followed exactly.
    """

    rings: int = 24
    sectors: int = 96
    cells: int = 4096
    hand_overs: int = 6
    hand_overs_after_wait: int = 3
    waits: int = 1

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            low = {"rings": 2, "sectors": 4, "cells": 2}.get(field.name, 0)
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < low:
                raise ValueError(
                    f"Resolution: {field.name} must be an integer of at least {low}, got {value!r}"
                )
        if self.sectors % 2:
            raise ValueError(f"Resolution: sectors must be even, got {self.sectors}")


COARSE = Resolution()
MEDIUM = Resolution(64, 256, 16384, 8, 4, 1)
FINE = Resolution(160, 640, 65536, 10, 5, 2)


@functools.lru_cache
def layout_for(family: type[TrustingPerson], n_steps: int, resolution: Resolution) -> TrustLayout:
    """The layout of states for a family of people.

    Raises:
        TypeError: If no layout is known for the family.
    """
    if issubclass(family, BetaTrust):
        return CountLayout(n_steps)
    if issubclass(family, MarkovTrust):
        return MeshLayout(IntervalMesh(resolution.cells), min(resolution.hand_overs + 2, n_steps - 1))
    if issubclass(family, TrustQubit):
        depth = min(resolution.hand_overs, n_steps - 1)
        mesh = DiscMesh(resolution.rings, resolution.sectors)
        depth_after_wait = min(resolution.hand_overs_after_wait, depth)
        return MeshLayout(mesh, depth, Waits(n_steps - 1, depth_after_wait, resolution.waits))
    raise TypeError(f"people must be TrustQubit, MarkovTrust or BetaTrust, got {family.__name__}")
