"""Directions in the coordinates of a Cholesky factor, added up in a fixed order: BLAS adds up as the CPU likes it."""

import math

from surefooted.arrays import Floats
from surefooted.kernels.compile import njit


@njit
def whiten(gram: Floats, vectors: Floats, root: Floats, white: Floats) -> float:
    """R⁻¹ v for each row v of `vectors` [n, d], to `white`, where R Rᵀ is `gram` [d, d]; R goes to `root`.

    Returns ln det R, or NaN if `gram` is not positive definite. Only the lower triangle of `gram` is read.
    """
    d, log_volume = len(gram), 0.0
    for i in range(d):
        for j in range(i + 1):
            rest = gram[i, j]
            for m in range(j):
                rest -= root[i, m] * root[j, m]
            if i > j:
                root[i, j] = rest / root[j, j]
            elif not rest > 0:
                return math.nan
            else:
                root[i, i] = math.sqrt(rest)
                log_volume += math.log(root[i, i])
    for k in range(len(vectors)):
        for i in range(d):
            rest = vectors[k, i]
            for m in range(i):
                rest -= root[i, m] * white[k, m]
            white[k, i] = rest / root[i, i]
    return log_volume


@njit
def inner_products(white: Floats, products: Floats) -> None:
    """<w_0, w_k> and |w_k|² of the rows of `white` [n, d], to `products` [n, 2]."""
    for k in range(len(white)):
        with_first, with_itself = 0.0, 0.0
        for i in range(white.shape[1]):
            with_first += white[0, i] * white[k, i]
            with_itself += white[k, i] * white[k, i]
        products[k, 0], products[k, 1] = with_first, with_itself
