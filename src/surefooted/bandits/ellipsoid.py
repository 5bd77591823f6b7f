"""The confidence ellipsoid of a linear model (Abbasi-Yadkori, Pál & Szepesvári 2011, Theorem 2)."""

import math
from typing import Any, Self

import numpy as np

from surefooted.arrays import is_whole
from surefooted.errors import InvalidInput, NotConverged
from surefooted.kernels import ellipsoid as kernels
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

    >>> import numpy as np
    >>> import surefooted as sf
    >>> model = sf.bandits.Ellipsoid(dimension=2, sigma=0.5, bound=1.0)
    >>> model.add(np.array([1.0, 0.0]), reward=0.8)
    >>> low, high = model.bounds(np.array([[1.0, 0.0]]))
    >>> bool(low[0] < 0.8 < high[0])
    True
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
        """θ̂, [d]: <θ̂, w> for each unit vector w."""
        return self._whitened(np.eye(self.dimension))[1][1:, 0]

    @property
    def radius(self) -> float:
        """β."""
        return self._whitened(np.zeros((0, self.dimension)))[2]

    def bounds(self, directions: Floats) -> tuple[Floats, Floats]:
        """The smallest and the largest <θ, w> over the ellipsoid, for each row w of directions [n, d].

        They are <θ̂, w> ± β |w|_{V⁻¹}, by Cauchy–Schwarz, and are attained at θ̂ ± β V⁻¹ w / |w|_{V⁻¹}.
        """
        _, products, radius = self._whitened(directions)
        middle, width = products[1:, 0], radius * np.sqrt(products[1:, 1])
        return middle - width, middle + width

    def contains(self, theta: Floats) -> bool:
        """Whether a parameter lies in the ellipsoid; for the true one, this is the good event."""
        gap = theta - self.centre
        distance = math.fsum((gap[:, None] * self.gram * gap).ravel())
        return bool(distance <= self.radius**2 * (1 + 1e-12))

    def sampled(self, directions: Floats, normal: Floats) -> Floats:
        """<θ, w> for each row w of directions [n, d], with θ = θ̂ + β R⁻ᵀ normal and V = R Rᵀ.

        If `normal` [d] is standard normal, θ has the covariance β² V⁻¹.
        """
        white, products, radius = self._whitened(directions)
        aside = np.array([math.fsum(row) for row in (white[1:] * normal).tolist()])
        return np.asarray(products[1:, 0] + radius * aside)

    def _whitened(self, directions: Floats) -> tuple[Floats, Floats, float]:
        """R⁻¹u, [n + 1, d], <θ̂, u> and |u|²_{V⁻¹}, [n + 1, 2], for the sum of r φ and each row of directions; and β.

        With V = R Rᵀ, <u, v>_{V⁻¹} = <R⁻¹u, R⁻¹v>; ln det(V)^½ is the sum of the logarithms of the diagonal of R.
        """
        rows = np.array(directions, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise InvalidInput("no such directions", [f"they have shape {rows.shape}, not (n, {self.dimension})"])
        vectors = np.concatenate([self.moment[None], rows])
        white, products = np.empty_like(vectors), np.empty((len(vectors), 2))
        log_volume = float(kernels.whiten(self.gram, vectors, np.zeros_like(self.gram), white))
        if not math.isfinite(log_volume):
            raise NotConverged("the Gram matrix of the features is not positive definite: they are too large, or NaN")
        kernels.inner_products(white, products)
        volume = log_volume - self.dimension * math.log(self.lambda_) / 2
        beta = self.sigma * math.sqrt(2 * (volume - math.log(self.delta))) + math.sqrt(self.lambda_) * self.bound
        return white, products, beta

    def state_dict(self) -> dict[str, Any]:
        """The sums."""
        return {"gram": self.gram.copy(), "moment": self.moment.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> Self:
        """Continue where `state_dict` was taken."""
        gram, moment = (np.array(state[name], dtype=np.float64) for name in ("gram", "moment"))
        if gram.shape != self.gram.shape or moment.shape != self.moment.shape:
            raise InvalidInput("this state belongs to another ellipsoid", [f"this one has dimension {self.dimension}"])
        self.gram, self.moment = gram, moment
        return self
