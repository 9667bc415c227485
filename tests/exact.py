"""A small exact solver for Clarification, written apart from the package to check it."""

import numpy as np


def clarification_optimum(person, ask_cost, success_reward=1.0, error_cost=5.0, max_questions=6):
    """Value of the best policy with full recall: expectimax over answer histories.

    Works on the unnormalised states of all hypotheses: the squared length of each is the probability
    of the history under it. Histories that lead to the same states (up to sign) are solved once.
    """
    states = np.asarray(person.states, np.complex128)
    projectors = np.asarray(person.projectors, np.complex128)
    solved = {}

    def value(vectors, left):
        """Expected return from here times the probability of being here."""
        weight = np.sum(np.abs(vectors) ** 2, axis=1) / len(vectors)
        total = weight.sum()
        best = success_reward * weight.max() - error_cost * (total - weight.max())
        if total < 1e-13:
            return best
        key = (left, np.round(vectors @ vectors.conj().T, 11).tobytes(), np.round(vectors, 9).tobytes())
        if key not in solved:
            for projector in projectors:
                yes = vectors @ projector.T
                if left == 1:
                    asked = -(ask_cost + error_cost) * total
                else:
                    asked = -ask_cost * total + value(yes, left - 1) + value(vectors - yes, left - 1)
                best = max(best, asked)
            solved[key] = best
        return solved[key]

    return value(states / np.linalg.norm(states, axis=1, keepdims=True), max_questions)
