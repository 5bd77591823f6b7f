"""What a log says of today's policy: bounds on its gain and bias, in the user's unit.

The bounds hold for every MDP of a set of plausible ones, and so for the true one on the event of the set. The gain is
bounded by value iteration, and by the rewards of the log one after the other. The bias is bounded relative to one
state: with mechanics of one noise, one law for all (`certificates.coupling`); otherwise as `certificates.netting` does.

These are the bounds of an agent that keeps the condition on decisions (`certificates.unknown`) before its first step.
Under the replay condition they narrow what is netted (`certificates.logged`). Nothing here is taken for known.
"""

from dataclasses import dataclass

import numpy as np

from surefooted.certificates.coupling import couple
from surefooted.certificates.netting import Netting, landmark
from surefooted.certificates.reference import Reference
from surefooted.certificates.unknown import UnknownAccount
from surefooted.errors import InvalidInput
from surefooted.knowledge.belief import Belief
from surefooted.knowledge.knowledge import Knowledge
from surefooted.sets.confidence import Confidence, likelihood, named
from surefooted.sets.plausible import Plausible
from surefooted.tables.baseline import Baseline, baseline_argument
from surefooted.tables.policy import Policy
from surefooted.tables.space import Floats, Space

CLOSE = 10**8  # the bounds on the gain are computed as exactly as after this many steps


@dataclass(frozen=True)
class BaselineEstimate:
    """Bounds on what a baseline earns, all at once with probability at least 1 - δ.

    - `gain`: (low, high), in the user's unit.
    - `bias`: (low, high), [S] each, relative to the state `landmark`; None if the log does not prove that the baseline
      returns to one.
    - `steps`: how many steps were counted.
    """

    space: Space
    gain: tuple[float, float]
    bias: tuple[Floats, Floats] | None
    landmark: int | None
    steps: int

    def __str__(self) -> str:
        """Two sentences."""
        low, high = (self.space.amount(end) for end in self.gain)
        said = f"By {self.steps} logged steps, the baseline earns between {low} and {high} a step."
        if self.bias is None:
            return f"{said} Its bias is not bounded: the log does not prove that it returns to any one state."
        widest = self.space.amount(float((self.bias[1] - self.bias[0]).max()))
        return f"{said} Its bias is known to {widest}."


def estimate_baseline(
    baseline: Baseline,
    *,
    delta: float = 0.05,
    knowledge: Knowledge | None = None,
    confidence: Confidence | str = likelihood,
) -> BaselineEstimate:
    """Bounds on gain and bias of a baseline that `Baseline.from_history` made of a log.

    - `baseline`: today's policy, with its log.
    - `delta`: the probability with which any of the bounds may fail.
    - `knowledge`: what is known beside the log.
    - `confidence`: how the set of plausible MDPs is made, a function of `surefooted.confidence` or its name.

    >>> import surefooted as sf
    >>> problem = sf.problems.inventory(3, noise=sf.Noise())
    >>> sf.write_history("stock.parquet", sf.simulate(problem, sf.UCRL2(problem.space), 2000))
    >>> history = sf.read_history("stock.parquet", problem.space)
    >>> baseline = sf.Baseline.from_history(history, problem.baseline)
    >>> low, high = sf.estimate_baseline(baseline, knowledge=problem.knowledge("mechanics")).gain
    >>> low < sf.solve.gain_and_bias(problem.mdp, problem.baseline).gain < high
    True
    """
    if wrong := baseline_argument(baseline):
        raise InvalidInput("this baseline cannot be estimated", wrong)
    faults = [] if baseline.history is not None else ["it has no log: make it with sf.Baseline.from_history(history)"]
    if baseline.policy.horizon is not None or (baseline.history is not None and baseline.history.counts.stages > 1):
        faults.append("over a finite horizon there is no gain: this is for average reward")
    if faults:
        raise InvalidInput("this baseline cannot be estimated", faults)
    assert baseline.history is not None
    counts, space = baseline.history.counts, baseline.policy.space
    belief = Belief(counts, named(confidence), delta / 2, knowledge)
    if contradictions := belief.compare():
        raise InvalidInput("the log contradicts what was declared", contradictions)
    plausible = belief.plausible()
    account = UnknownAccount(space, baseline, 0.0, delta / 2)
    if baseline.history.in_order is not None:
        account.remember(baseline.history.in_order)
    account.review(plausible)
    split = Reference.of(Baseline(baseline.policy), plausible, CLOSE)
    low, high = space.money.counted(np.array(account.gain_bounds)).tolist()
    gain = (max(split.gain_low, low), min(split.gain_high, high))
    ends = (float(space.money.earned(gain[0])), float(space.money.earned(gain[1])))
    return BaselineEstimate(space, ends, *_bias(plausible, baseline.policy, split), counts.total)


def _bias(plausible: Plausible, policy: Policy, split: Reference) -> tuple[tuple[Floats, Floats] | None, int | None]:
    """Bounds on the bias relative to a state, [S] each, and that state; nothing if it is not bounded."""
    target, coupling = landmark(plausible, policy), couple(plausible, policy)
    if target is not None and coupling is not None:
        return coupling.around(target), target
    found = Netting(plausible, policy).references(split)
    if not found:
        return None, None
    low, high = np.minimum(*(end.bias_low for end in found)), np.maximum(*(end.bias_high for end in found))
    return (low, high), target
