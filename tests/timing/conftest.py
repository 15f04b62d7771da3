"""Series with known truth for the timing tests."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Simulate = Callable[..., NDArray[np.float64]]


@pytest.fixture(scope="session")
def ar1() -> Simulate:
    """`ar1(rho, n, series, cv=0.03, seed=0)`: stationary AR(1), (series, n), mean 1, standard deviation cv."""

    def simulate(rho: float, n: int, series: int, cv: float = 0.03, seed: int = 0) -> NDArray[np.float64]:
        noise = np.random.default_rng(seed).normal(size=(n, series))
        values = np.empty_like(noise)
        values[0] = noise[0]
        for i in range(1, n):
            values[i] = rho * values[i - 1] + np.sqrt(1 - rho**2) * noise[i]
        return 1 + cv * values.T

    return simulate
