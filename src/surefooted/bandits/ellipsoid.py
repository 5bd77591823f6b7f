"""The confidence ellipsoid of a linear model (Abbasi-Yadkori, Pál & Szepesvári 2011, Theorem 2)."""

from typing import Any, Self

import numpy as np

from surefooted.arrays import is_whole
from surefooted.errors import InvalidInput
from surefooted.tables.space import Floats


class Ellipsoid:
    """The plausible parameters {θ: |θ - θ̂|_V <= β} with V = λ I + Σ φ φᵀ and θ̂ = V⁻¹ Σ r φ.

    Suppose that rewards are <θ*, φ> plus σ-sub-Gaussian noise and that |θ*| <= B. Then with probability at least 1 - δ,
    θ* lies in the ellipsoid after every round, even if features are chosen depending on the past, for

        β = σ sqrt(2 ln(det(V)^½ det(λ I)^-½ / δ)) + sqrt(λ) B.

    Kazerouni et al. (2017) print the theorem's second form, σ sqrt(d ln((1 + m D² / λ) / δ)) + sqrt(λ) B for m samples
    with |φ| <= D. It follows from the first form for d >= 2, and is larger. The class stores sums, not inverses, and
    factorises V for every question, so that rounding errors do not accumulate; d is small.

    - `dimension`: d.
    - `sigma`, `bound`, `lambda_`, `delta`: σ, B, λ and δ.
    """

    def __init__(
        self, dimension: int, *, sigma: float, bound: float, lambda_: float = 1.0, delta: float = 0.05
    ) -> None:
        faults = [] if is_whole(dimension, 1) else [f"dimension {dimension} must be a positive whole number"]
        for name, value in (("sigma", sigma), ("bound", bound)):
            if not (np.isfinite(value) and value >= 0):
                faults.append(f"{name} {value} must be finite and not negative")
        if not (np.isfinite(lambda_) and lambda_ > 0):
            faults.append(f"lambda_ {lambda_} must be positive and finite")
        if not 0 < delta < 1:
            faults.append(f"delta {delta} must lie strictly between 0 and 1")
        if faults:
            raise InvalidInput("this ellipsoid cannot be built", faults)
        self.dimension, self.sigma, self.bound, self.lambda_, self.delta = int(dimension), sigma, bound, lambda_, delta
        self.gram = lambda_ * np.eye(self.dimension)  # V, [d, d]
        self.moment = np.zeros(self.dimension)  # Σ r φ, [d]

    def add(self, phi: Floats, reward: float) -> None:
        """Add one sample."""
        gram, moment = self.gram + np.outer(phi, phi), self.moment + reward * phi
        self.gram, self.moment = gram, moment

    @property
    def centre(self) -> Floats:
        """θ̂, [d]."""
        return np.asarray(np.linalg.solve(self.gram, self.moment))

    @property
    def radius(self) -> float:
        """β."""
        return self._radius(np.linalg.cholesky(self.gram).astype(np.float64))

    def bounds(self, directions: Floats) -> tuple[Floats, Floats]:
        """The smallest and the largest <θ, w> over the ellipsoid, for each row w of directions [n, d].

        They are <θ̂, w> ± β |w|_{V⁻¹}, by Cauchy–Schwarz, and are attained at θ̂ ± β V⁻¹ w / |w|_{V⁻¹}.
        """
        root = np.linalg.cholesky(self.gram).astype(np.float64)
        white = np.linalg.solve(root, np.vstack([self.moment, directions]).T)  # V = R Rᵀ: <u, v>_{V⁻¹} = <R⁻¹u, R⁻¹v>
        middle, width = white[:, 0] @ white[:, 1:], self._radius(root) * np.linalg.norm(white[:, 1:], axis=0)
        return np.asarray(middle - width), np.asarray(middle + width)

    def contains(self, theta: Floats) -> bool:
        """Whether a parameter lies in the ellipsoid; for the true one, this is the good event."""
        gap = theta - self.centre
        return bool(gap @ self.gram @ gap <= self.radius**2 * (1 + 1e-12))

    def _radius(self, root: Floats) -> float:
        """β from the Cholesky factor of V: ln det(V)^½ is the sum of the logarithms of its diagonal."""
        volume = float(np.log(np.diag(root)).sum()) - self.dimension * np.log(self.lambda_) / 2
        return float(self.sigma * np.sqrt(2 * (volume - np.log(self.delta))) + np.sqrt(self.lambda_) * self.bound)

    def state_dict(self) -> dict[str, Any]:
        """The sums."""
        return {"gram": self.gram.copy(), "moment": self.moment.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        if np.shape(state["gram"]) != self.gram.shape or np.shape(state["moment"]) != self.moment.shape:
            raise InvalidInput("this state belongs to another ellipsoid", [f"this one has dimension {self.dimension}"])
        self.gram, self.moment = np.array(state["gram"]), np.array(state["moment"])
        return self
