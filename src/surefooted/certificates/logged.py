"""What the log of an unknown baseline proves under the replay condition, beside the set that counts it.

*Its gain.* The rewards of the log, one after the other, bound the gain as they do for the condition on decisions
(`certificates.unknown`), with a share of δ of their own. The set pays ln(1 / δ) for every pair, the log once.

*Its bias.* With mechanics of one noise, one law for all (`certificates.coupling`) bounds the bias relative to a state,
whatever the gain, and on the event of the set: it needs no share of δ.

Both narrow what `certificates.netting` nets. The proof is in docs/guarantees.md, "What a log adds".
"""

from dataclasses import replace

from surefooted.certificates.coupling import Coupling, couple
from surefooted.certificates.netting import ANY, Netting, between, landmark
from surefooted.certificates.reference import Reference
from surefooted.certificates.unknown import UnknownAccount
from surefooted.kernels.telescope import HIGH, LOW
from surefooted.tables.baseline import Baseline


def references(
    netting: Netting, split: Reference, baseline: Baseline, delta: float
) -> tuple[tuple[Reference, ...], ...]:
    """Pairs of references for a netted proof; each bounds the bias at the upper and at the lower end of the gain.

    `delta` is the share of the log; 0: only the set proves. Ends and biases hold on the events of both.
    """
    by_set = netting.references(split)
    if delta == 0:
        return (by_set,) if by_set else ()
    coupling = couple(netting.plausible, netting.policy)
    spans = [] if coupling is None else [coupling.span]
    spans += [max(float(end.bias_high.max() - end.bias_low.min()) for end in by_set)] if by_set else []
    if not spans:
        return ()
    within = gain_by_log(baseline, max(min(spans), 0.0), coupling, delta)
    found = [netting.references(split, within)] if by_set else []
    return (*found, *([] if coupling is None else [_coupled(netting, split, within, coupling)]))


def gain_by_log(baseline: Baseline, span: float, coupling: Coupling | None, delta: float) -> tuple[float, float]:
    """Between which the gain lies by the log's rewards, counted from `low`; it fails with probability `delta`.

    `span` is at least that of the bias. Which bets are made depends on span and coupling; each choice has a share of
    `delta` of its own, so that this may be asked again with others.
    """
    if baseline.history is None or baseline.history.in_order is None:
        return ANY
    account = UnknownAccount(baseline.policy.space, replace(baseline, span=None), 0.0, delta)
    account.remember(baseline.history.in_order)
    account.use_span(span, coupling)
    return float(account.arrays.now[LOW]), float(account.arrays.now[HIGH])


def _coupled(
    netting: Netting, split: Reference, within: tuple[float, float], coupling: Coupling
) -> tuple[Reference, ...]:
    """The bias as one law for all bounds it, the same for both ends of the gain."""
    low, high = between(split, within)
    target = landmark(netting.plausible, netting.policy)
    below, above = coupling.around(0 if target is None else target)
    netting.sweeps += coupling.sweeps
    return tuple(Reference(gain, gain, below, above, one_bias=True) for gain in (high, low))
