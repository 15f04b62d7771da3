"""What holds for every exchange with error feedback: nothing is lost, only late. Not a test."""

from typing import Any

import numpy as np
from lockstep import Lockstep


def gradients(replicas: int, elements: int, seed: int) -> list[list[Any]]:
    """Shares of one large gradient whose elements differ in size by orders of magnitude, [replica][0]."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.normal(size=elements))
    return [[(rng.normal(size=elements) * sizes / replicas).astype(np.float32)] for _ in range(replicas)]


def kept_back(world: Lockstep, elements: int) -> Any:
    """The sum over replicas of what they keep: of their own gradients, and of the part of the sum that each encodes."""
    total = np.zeros(elements)
    for replica, exchange in enumerate(world.exchanges):
        kept = {name: np.asarray(own[replica]).ravel() for name, own in exchange._kept.items()}
        total += kept["residual/0"][:elements]
        if "residual/1" in kept:
            part = kept["residual/1"]
            begin = min(replica * part.size, elements)
            total[begin : begin + part.size] += part[: elements - begin]
    return total


def assert_nothing_is_lost(exchange: str, replicas: int, elements: int, steps: int = 5) -> None:
    """Sum over steps of the means + what is kept = sum over steps and replicas of the shares; all replicas agree."""
    world = Lockstep(exchange, replicas)
    handed, came = np.zeros(elements), np.zeros(elements)
    for step in range(steps):
        shares = gradients(replicas, elements, step)
        results = [np.asarray(means[0]) for means, _ in world.step(shares)]
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])
        handed += sum(share[0].astype(np.float64) for share in shares)
        came += results[0]
    assert np.abs(kept_back(world, elements)).max() > 0.1, "a lossy exchange keeps something"
    np.testing.assert_allclose(came + kept_back(world, elements), handed, rtol=1e-5, atol=2e-5)
