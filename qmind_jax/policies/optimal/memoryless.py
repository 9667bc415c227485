"""The best policy of Clarification that sees the raw observation alone: the last answer to each question.

It knows neither the order nor the number of the questions. To find it is a search, here by branch and bound:
the bound lets the agent see everything wherever the policy is still open.
"""

import jax
import jax.numpy as jnp
import numpy as np

from qmind_jax.people.answering import AnsweringPerson
from qmind_jax.policies.optimal.beliefs import belief_model
from qmind_jax.policies.optimal.expectimax import Actions, ClarificationCosts, history_weights
from qmind_jax.policies.optimal.histories import Histories

_OPEN = -1


def memoryless_plans(
    people: AnsweringPerson, histories: Histories, costs: ClarificationCosts, max_searched: int
) -> Actions:
    """The best memoryless plan for everybody, as actions after every history.

    Args:
        people: A population, not traced.
        histories: The tree in which any question may follow any other.
        costs: The costs, not traced.
        max_searched: Give up after so many partial policies for one person.

    Raises:
        ValueError: If the search is given up.
    """
    observations = _observations(histories)
    numbers = [float(cost) for cost in jax.tree.leaves(costs)]
    plans = []
    for i, person in enumerate(people):
        weights = [np.asarray(level, float) for level in _weights(person, histories)]
        search = _Search(weights, histories, observations, ClarificationCosts(*numbers))
        try:
            policy = search.run(max_searched)
        except _GivenUpError as error:
            raise ValueError(
                f"max_searched must be larger than {max_searched} to find the memoryless policy of person {i}"
            ) from error
        plans.append([policy[level] for level in observations])
    return tuple(jnp.asarray(np.stack(level), jnp.int32) for level in zip(*plans, strict=True))


class _GivenUpError(Exception):
    """Too many partial policies."""


def _observations(histories: Histories) -> list[np.ndarray]:
    """Number of the observation after every history: a digit per question, 0 not asked, 1 no, 2 yes."""
    num_questions = histories.may_ask.shape[1]
    digits, levels = np.zeros((1, num_questions), int), []
    for level in (*histories.levels, None):
        levels.append(digits @ 3 ** np.arange(num_questions))
        if level is not None:
            answer, question, parent = np.unravel_index(level.origin, (2, num_questions, len(digits)))
            digits = digits[parent]
            digits[np.arange(len(digits)), question] = 1 + answer
    return levels


@jax.jit
def _weights(person: AnsweringPerson, histories: Histories) -> list[jax.Array]:
    """Probability of every history under every hypothesis, with that of the hypothesis, ``(H, n)``."""
    return history_weights(belief_model(jax.tree.map(lambda leaf: leaf[None], person)), histories)


class _Search:
    """Branch and bound for one person."""

    def __init__(
        self,
        weights: list[np.ndarray],
        histories: Histories,
        observations: list[np.ndarray],
        costs: ClarificationCosts,
    ) -> None:
        self.costs = costs
        self.num_hypotheses, self.num_questions = len(weights[0]), histories.may_ask.shape[1]
        self.totals = [weight.sum(axis=0) for weight in weights]
        self.acted = [
            (costs.success + costs.error) * weight - costs.error * total
            for weight, total in zip(weights, self.totals, strict=True)
        ]
        self.children = [np.asarray(level.children) for level in histories.levels]
        self.observations = observations

    def run(self, max_searched: int) -> np.ndarray:
        """The best policy: an action for every observation."""
        best, best_policy = -np.inf, np.array([])
        waiting = [np.full(3**self.num_questions, _OPEN)]
        for _ in range(max_searched):
            if not waiting:
                return best_policy
            policy = waiting.pop()
            bound, values = self.bound(policy)
            if bound <= best + 1e-12 * (1.0 + abs(best)):
                continue
            observation, candidates, plan = self.conflict(policy, values)
            if observation is None:
                best, best_policy = bound, plan
                continue
            for action in candidates:
                waiting.append(policy.copy())
                waiting[-1][observation] = action
        raise _GivenUpError

    def bound(self, policy: np.ndarray) -> tuple[float, list[np.ndarray]]:
        """Value of a partial policy with full recall where it is open, and of each action there."""
        values, value = [], np.zeros(0)
        for depth in reversed(range(len(self.totals))):
            total = self.totals[depth]
            if depth == len(self.children):
                asked = np.broadcast_to(
                    -(self.costs.ask + self.costs.error) * total, (self.num_questions, len(total))
                )
            else:
                asked = value[self.children[depth]].sum(axis=-1).T - self.costs.ask * total
            of_actions = np.concatenate([asked, self.acted[depth]])
            fixed = policy[self.observations[depth]]
            taken = np.take_along_axis(of_actions, np.maximum(fixed, 0)[None], axis=0)[0]
            value = np.where(fixed == _OPEN, of_actions.max(axis=0), taken)
            values.append(of_actions)
        return float(value[0]), values[::-1]

    def conflict(
        self, policy: np.ndarray, values: list[np.ndarray]
    ) -> tuple[int | None, np.ndarray, np.ndarray]:
        """The observation after which the bound acts in different ways most often, if there is any.

        Returns:
            The observation or None, the actions to try there with the most promising one last, and, if None,
            the policy that the bound plays.
        """
        size = self.num_questions + self.num_hypotheses
        used, reached = np.zeros((len(policy), size)), np.ones(1, bool)
        for depth, of_actions in enumerate(values):
            # Of actions that are equally good the first, so that ties make no conflicts.
            slack = 1e-13 * (1.0 + np.abs(of_actions).max(axis=0))
            free = np.argmax(of_actions >= of_actions.max(axis=0) - slack, axis=0)
            fixed = policy[self.observations[depth]]
            action = np.where(fixed == _OPEN, free, fixed)
            live = reached & (self.totals[depth] > 0)
            np.add.at(used, (self.observations[depth][live], action[live]), self.totals[depth][live])
            if depth < len(self.children):
                asks = np.flatnonzero(live & (action < self.num_questions))
                reached = np.zeros(len(self.totals[depth + 1]), bool)
                reached[self.children[depth][asks, action[asks]]] = True
        plays = np.where(used.any(axis=1), used.argmax(axis=1), self.num_questions)
        plays = np.where(policy == _OPEN, plays, policy)
        in_conflict = (policy == _OPEN) & ((used > 0).sum(axis=1) > 1)
        if not in_conflict.any():
            return None, np.array([]), plays
        observation = int(np.argmax(np.where(in_conflict, used.sum(axis=1), -1.0)))
        return observation, np.argsort(used[observation], kind="stable"), plays
