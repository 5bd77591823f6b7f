"""What a replay certificate has proved: a margin at some step, in one case or in two."""

from collections.abc import Mapping
from dataclasses import dataclass

from surefooted.certificates.reference import Reference
from surefooted.codec import record


@record
@dataclass(frozen=True)
class Case:
    """A margin proved for a baseline that is as the reference says, which any continuation may build on.

    Let u(s) be what the steps after it earn from s, minus `required` per step, with the reserve for the way back
    included. Then the margin is at least `margin` + min_s (u - terminal)(s), with `reference.terminal` [S].
    """

    margin: float
    reference: Reference
    required: float  # (1 - α) gain_high, minus what the tolerance adds for each step
    terms: Mapping[str, float]

    @property
    def rate(self) -> float:
        """What each step of the baseline adds to the margin."""
        return self.reference.gain_low - self.required

    def due_after(self, steps: int) -> "Case":
        """What there is when the condition must hold again, if the baseline is played until then.

        A step of another policy then costs the baseline's gain: what it earns less, and the `rate` it does not add.
        """
        added = steps * self.rate
        terms = dict(self.terms) | {"until the next checkpoint": added}
        return Case(self.margin + added, self.reference, self.reference.gain_low, terms)


@record
@dataclass(frozen=True)
class Proof:
    """A margin proved at step t, in each case; there are two if the gain of the baseline lies between two gains."""

    t: int
    cases: tuple[Case, ...]

    @property
    def worst(self) -> Case:
        """The case with the smallest margin."""
        return min(self.cases, key=lambda case: case.margin)

    @property
    def margin(self) -> float:
        """What is proved in every case."""
        return self.worst.margin

    @property
    def is_lasting(self) -> bool:
        """Whether the margin is proved to stay when the baseline is played from now on."""
        return min(case.rate for case in self.cases) >= 0

    @property
    def is_netted(self) -> bool:
        """Whether one bias, known up to bounds, is on both sides."""
        return self.cases[0].reference.one_bias
