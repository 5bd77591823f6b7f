"""Has something changed? An anytime-valid test that what happens now fits what was learnt and what was declared.

Two hypotheses are tested. A rejection of either is an alarm.

1. *The baseline earns what was declared.* At the steps of the baseline, D = r + h(s') - h(s) - g has mean 0 given the
   past. `knowledge.baseline_check` adds up all D since the first, and a change after a long time drowns in them. Here,
   sums begin anew from time to time. Let E_j be the e-value of `baseline_check` over the steps since the j-th beginning
   (1 until it is there), and w_j = 1 / (j (j + 1)). The w_j sum to 1.
2. *Each pair does what it has always done.* The reward (in `BINS` intervals) and the next state of a pair are one of m
   symbols. If nothing changes, the symbols of a pair are independent draws from one unknown law p. For a beginning j,
   let q_j be the probability that two Dirichlet mixtures, one for the symbols before it and one for those since, give
   to all symbols x so far. Then E_jk = q_j(x) / max_p p(x) for pair k (universal inference; Wasserman, Ramdas &
   Balakrishnan 2020), and each pair has the weight w_j / K.

**Theorem.** If both hypotheses hold, an alarm is ever raised with probability at most `level`.

**Proof.** Each E_j is a non-negative supermartingale that begins at 1 (`baseline_check`), and stays 1 until its
beginning. So sum_j w_j E_j is one, and by Ville's inequality it ever reaches 2 / level with probability at most level /
2. It is computed over some of the j only, which makes it smaller. For 2., q_j(x) / p(x) is a non-negative martingale
that begins at 1, for the true p. E_jk is at most that, for every k and j, and so is the weighted sum. It reaches 2 /
level with probability at most level / 2. ∎

After r restarts the level is `level` / ((r + 1) (r + 2)); these add up to `level`. A false alarm breaks no promise: the
baseline is played until somebody decides what to believe. So `level` is no part of δ. The theorem supposes that which
outcomes are told, and when, does not depend on what they are. If bad news comes late, there may be more false alarms.
What people have replaced counts at its worst (`hide`); of 2. it supposes that they know no more than the state.
"""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from surefooted.kernels import baseline_check as kernels
from surefooted.knowledge.baseline_check import LAMBDA, PSI, TOLERANCE
from surefooted.tables.baseline import Baseline
from surefooted.tables.space import Floats, Ints

BINS = 4  # of rewards
EVERY, SELDOM = 25, 200  # steps between two looks: at least this many, and this share of all
BEGIN, GROWTH = 100, 1.3  # sums begin anew after BEGIN steps, and each time the steps have grown by GROWTH
MOST = 12  # beginnings that are remembered: the latest
KEPT = ("alarm", "since", "n", "look_at", "begin_at", "begun", "restarts")


class Drift:
    """Tests whether what happens still fits what was learnt and declared; `alarm` says what changed, and since when.

    Parameters
    ----------
    baseline : the baseline, with its gain and bias
    level : the probability with which an alarm is ever raised although nothing has changed

    Example
    -------
    >>> import surefooted as sf
    >>> space = sf.Space.full(n_states=1, n_actions=1)
    >>> drift = Drift(sf.Baseline(sf.Policy.always(space, 0), gain=0.5, bias=np.zeros(1)), level=0.01)
    >>> any(drift.add(0, 0, reward, 0, own=True) for reward in [0.3, 0.7] * 500)
    False
    >>> any(drift.add(0, 0, reward, 0, own=True) for reward in [0.1, 0.5] * 200)
    True
    >>> drift.alarm
    'state 0, action 0: earns or leads to something else than up to outcome 816'

    """

    def __init__(self, baseline: Baseline, level: float) -> None:
        assert baseline.gain_counted is not None and baseline.bias is not None
        self.gain = baseline.gain_counted
        self.baseline, self.level, self.space = baseline, level, baseline.policy.space
        self.range_ = float(np.ptp(baseline.bias)) + self.space.r_max  # of a surprise
        self._bias: list[float] = baseline.bias.tolist()
        self.restarts = -1
        self.restart()

    def restart(self) -> None:
        """Forget everything, and begin to look anew."""
        self.restarts += 1
        self.alarm: str | None = None
        self.since = 0  # the decision of the last outcome before the change, if there is an alarm and it is known
        self.n, self.look_at, self.begin_at, self.begun = 0, EVERY, float(BEGIN), 0
        self._sums = [0.0, 0.0, 0.0, 0.0]  # of the surprises of the baseline, in units of their range
        self._symbols: dict[int, int] = {}  # where each symbol of each pair is counted
        self._counts: list[int] = []
        self._pairs: list[int] = []  # of each symbol
        self._beginnings: list[tuple[int, int, int, Floats, Floats]] = []  # number, n, decision, sums, counts

    @property
    def threshold(self) -> float:
        """The logarithm of what each of the two weighted sums must reach."""
        return math.log(2 * (self.restarts + 1) * (self.restarts + 2) / self.level)

    def add(self, s: int, pair: int, reward: float, s_next: int, own: bool, decision: int = 0) -> bool:
        """Count a step, at which the baseline chose if it is its `own`; whether this raises an alarm.

        The reward is counted from `low` (`tables.money`). An alarm names the `decision` after which something changed.
        """
        if self.alarm is not None:
            return False
        space, bias = self.space, self._bias
        self.n += 1
        if own:
            d = min(max((reward + bias[s_next] - bias[s] - self.gain) / self.range_, -1.0), 1.0)
            steps, total, square, hidden = self._sums
            self._sums = [steps + 1.0, total + d, square + d * d, hidden]
        earned = min(max(int(BINS * reward / space.r_max), 0), BINS - 1)
        symbol = (pair * space.n_states + s_next) * BINS + earned
        if (where := self._symbols.get(symbol)) is None:
            where = self._symbols[symbol] = len(self._counts)
            self._counts.append(0)
            self._pairs.append(pair)
        self._counts[where] += 1
        if self.n >= self.begin_at:
            self._begin(decision)
        if self.n < self.look_at:
            return False
        self.look_at = self.n + max(EVERY, len(self._counts) // 4, self.n // SELDOM)
        self.alarm = self._of_baseline() or self._of_pairs()
        return self.alarm is not None

    def hide(self) -> None:
        """A surprise of the baseline was hidden by an override: it counts at its worst, as in `BaselineCheck`."""
        steps, total, square, hidden = self._sums
        self._sums = [steps + 1.0, total, square + 1.0, hidden + 1.0]

    def _begin(self, decision: int) -> None:
        """Sums begin anew."""
        self.begun += 1
        self.begin_at = max(GROWTH * self.begin_at, self.begin_at + EVERY) if self.n < 2_000 else self.n + 500.0
        now = (self.begun, self.n, decision, np.array(self._sums), np.array(self._counts, dtype=np.float64))
        self._beginnings = [*self._beginnings, now][-MOST:]

    def _of_baseline(self) -> str | None:
        """What the surprises of the baseline say."""
        if not self._beginnings:
            return None
        rows = np.array(self._sums) - np.array([sums for *_, sums, _ in self._beginnings])
        logs = np.zeros(len(rows))
        kernels.evidence(rows, TOLERANCE, LAMBDA, PSI, -math.inf, logs)
        logs -= [math.log(j * (j + 1)) for j, *_ in self._beginnings]
        if np.logaddexp.reduce(logs) < self.threshold:
            return None
        best = int(np.argmax(logs))
        counted, total, _, hidden = rows[best].tolist()
        steps = counted - hidden
        mean = total / steps * self.range_
        more = "more" if mean > 0 else "less"
        since = f"over the {int(steps)} steps since {self._place(best)}"
        return f"the baseline earns {self.space.amount(abs(mean), '.3g')} a step {more} than was declared, {since}"

    def _of_pairs(self) -> str | None:
        """What the symbols of single pairs say."""
        if not self._beginnings:
            return None
        names, logs = self.pair_evidence()
        if np.logaddexp.reduce(logs, axis=None) < self.threshold:
            return None
        j, k = np.unravel_index(int(np.argmax(logs)), logs.shape)
        return f"{self.space.words(int(names[k]))}: earns or leads to something else than up to {self._place(int(j))}"

    def _place(self, i: int) -> str:
        """Where sums began that raise an alarm."""
        _, n, self.since, *_ = self._beginnings[i]
        return f"decision {self.since}" if self.since else f"outcome {n}"

    def pair_evidence(self) -> tuple[Ints, Floats]:
        """The pairs that were seen, and ln(w_j E_jk / K) for each beginning j that is remembered, [J, pairs]."""
        (names, index), counts = np.unique(self._pairs, return_inverse=True), np.array(self._counts, dtype=np.float64)
        before = np.zeros((len(self._beginnings), len(counts)))
        for row, (*_, then) in zip(before, self._beginnings, strict=True):
            row[: len(then)] = then
        both = self._mixture(before, index) + self._mixture(counts - before, index)
        weights = [math.log(j * (j + 1) * self.space.n_pairs) for j, *_ in self._beginnings]
        return names, both - self._fixed(counts[None], index) - np.array(weights)[:, None]

    @staticmethod
    def _by_pair(values: Floats, index: Any) -> Floats:
        """Sums over the symbols of each pair, [rows, pairs], of values [rows, symbols]."""
        pairs = int(index.max()) + 1
        cells = np.arange(len(values))[:, None] * pairs + index
        sums: Floats = np.bincount(cells.ravel(), values.ravel(), len(values) * pairs).astype(np.float64)
        return sums.reshape(len(values), pairs)

    def _fixed(self, counts: Floats, index: Any) -> Floats:
        """The logarithm of the largest probability that one law can give to all symbols of a pair, [rows, pairs]."""
        total = self._by_pair(counts, index)
        return self._by_pair(counts * np.log(counts / total[:, index]), index)

    def _mixture(self, counts: Floats, index: Any) -> Floats:
        """The logarithm of the probability that a Dirichlet mixture gives to the symbols of a pair, [rows, pairs]."""
        symbols = BINS * self.space.n_states
        a = min(0.5, 4.0 / symbols)
        total, each = self._by_pair(counts, index), self._by_pair(gammaln(counts + a) - gammaln(a), index)
        return np.asarray(each + gammaln(symbols * a) - gammaln(total + symbols * a))

    def state_dict(self) -> dict[str, Any]:
        """What was counted."""
        beginnings = [(j, n, of, sums.copy(), counts.copy()) for j, n, of, sums, counts in self._beginnings]
        symbols = (list(self._symbols), list(self._counts), list(self._pairs))
        kept = {"sums": np.array(self._sums), "symbols": symbols, "beginnings": beginnings}
        return {name: getattr(self, name) for name in KEPT} | kept

    def load(self, state: dict[str, Any]) -> None:
        """Remember what `state_dict` returned."""
        for name in KEPT:
            setattr(self, name, state[name])
        symbols, self._counts, self._pairs = (list(column) for column in state["symbols"])
        self._symbols = {symbol: i for i, symbol in enumerate(symbols)}
        self._sums = _with_hidden(state["sums"]).tolist()
        begun = state["beginnings"]
        self._beginnings = [(j, n, of, _with_hidden(sums), counts) for j, n, of, sums, counts in begun]


def _with_hidden(sums: Floats) -> Floats:
    """Saved sums, in which nothing was hidden once."""
    return np.append(sums, np.zeros(4 - len(sums)))
