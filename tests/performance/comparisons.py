"""Do the intervals of `tfscale compare` hold the true ratio as often as they say? Simulated trials with a known truth."""

import math
import statistics
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rows import Bound, Part, Row

from tfscale.suite.analysis.comparison import LogRatio, geometric_mean, log_ratio, ratio_of

TRUE_RATIO = 1.03
BETWEEN, WITHIN, CORRELATION = 0.01, 0.02, 0.5
SLOW_SHARE, SLOW_MEAN, BLOCKS = 0.05, 0.10, 40
SIZES = (3, 5, 10)
COMPARISONS, SEEDS = 2000, (11, 12, 13, 14, 15)
DRIFT = 0.005
LOWEST, HIGHEST = 0.93, 0.97
METHOD = (
    f"Simulated comparisons of two settings whose true ratio is {TRUE_RATIO}. Each trial is {BLOCKS} blocks: a trial mean "
    f"with sd {BETWEEN:.0%}, block times around it with sd {WITHIN:.0%} and autocorrelation {CORRELATION}, "
    f"{SLOW_SHARE:.0%} of the blocks slower by an exponential of mean {SLOW_MEAN:.0%}. Coverage: share of the 95 % "
    f"intervals that hold the true ratio, over {len(SEEDS)} seeds ({', '.join(map(str, SEEDS))}) of {COMPARISONS:,} "
    f"comparisons each; its interval is binomial (Wilson). Pairs run A B B A on a machine that slows by {DRIFT:.1%} from "
    "launch to launch. A mean is over 4 cases."
)

Floats = NDArray[np.float64]


def run(quick: bool) -> Part:
    seeds, count = (SEEDS[:1], 400) if quick else (SEEDS, COMPARISONS)
    rows = []
    for trials in SIZES:
        rows += coverage_rows(f"{trials} trials a side", [covered(seed, count, trials) for seed in seeds], count)
    for pairs in (4, 10):
        rows += coverage_rows(f"{pairs} pairs, drifting", [covered_pairs(seed, count, pairs) for seed in seeds], count)
    rows += coverage_rows("geometric mean, 3 trials a side", [covered_means(seed, count, 3) for seed in seeds], count)
    return Part("compare", "Intervals of comparisons", METHOD, [*rows, time_row()])


def trial_means(rng: np.random.Generator, comparisons: int, trials: int, drift: float = 0.0) -> Floats:
    """Mean step times (comparisons, trials), the true mean of each setting 1 but for a factor that all share.

    `drift` is added to the logarithm from one trial to the next.
    """
    size = (comparisons, trials)
    noise = rng.normal(size=(*size, BLOCKS))
    within = np.empty_like(noise)
    within[..., 0] = noise[..., 0]
    for block in range(1, BLOCKS):
        kept, fresh = CORRELATION, math.sqrt(1 - CORRELATION**2)
        within[..., block] = kept * within[..., block - 1] + fresh * noise[..., block]
    slow = np.where(rng.random(noise.shape) < SLOW_SHARE, rng.exponential(SLOW_MEAN, noise.shape), 0.0)
    blocks = (1 + WITHIN * within) * (1 + slow)
    centre = np.exp(rng.normal(0, BETWEEN, size) + drift * np.arange(trials))
    return np.asarray(centre * blocks.mean(axis=-1), dtype=np.float64)


def holds(log: LogRatio) -> bool:
    interval = ratio_of(log).ci95
    assert interval is not None
    return interval[0] <= TRUE_RATIO <= interval[1]


def covered(seed: int, comparisons: int, trials: int) -> float:
    """Share of `comparisons` whose Welch interval holds the true ratio; throughputs are the inverse of step times."""
    rng = np.random.default_rng(seed)
    a, b = (1 / trial_means(rng, comparisons, trials) for _ in range(2))
    return float(np.mean([holds(log_ratio(one, other)) for one, other in zip(a, b * TRUE_RATIO, strict=True)]))


def covered_pairs(seed: int, comparisons: int, pairs: int) -> float:
    """The same of pairs in the order A B, B A, ... while the machine drifts."""
    speeds = 1 / trial_means(np.random.default_rng(seed), comparisons, 2 * pairs, DRIFT)
    first, second = speeds[:, 0::2], speeds[:, 1::2]
    turned = np.arange(pairs) % 2 == 1
    a, b = np.where(turned, second, first), np.where(turned, first, second)
    found = [log_ratio(one, other, paired=True) for one, other in zip(a, b * TRUE_RATIO, strict=True)]
    return float(np.mean([holds(log) for log in found]))


def covered_means(seed: int, comparisons: int, trials: int, cases: int = 4) -> float:
    """The same of geometric means over `cases`, whose own true ratios differ around TRUE_RATIO."""
    rng = np.random.default_rng(seed)
    apart = np.exp(np.linspace(-0.1, 0.1, cases))
    a, b = (1 / trial_means(rng, comparisons * cases, trials).reshape(comparisons, cases, trials) for _ in range(2))
    kept = 0
    for one, other in zip(a, b * TRUE_RATIO, strict=True):
        mean = geometric_mean([log_ratio(x, y * by) for x, y, by in zip(one, other, apart, strict=True)])
        assert mean.ci95 is not None
        kept += mean.ci95[0] <= TRUE_RATIO <= mean.ci95[1]
    return kept / comparisons


def coverage_rows(what: str, shares: Sequence[float], comparisons: int) -> list[Row]:
    """Two rows, as the bounds are two: no less than LOWEST, no more than HIGHEST."""
    share = statistics.fmean(shares)
    count = comparisons * len(shares)
    seeds = "seeds: " + ", ".join(f"{one:.2%}" for one in shares)
    bounds = (Bound("at_least", LOWEST), Bound("at_most", HIGHEST))
    interval = wilson(share, count)
    return [Row(f"{what}: coverage", share, "", "simulated", count, interval, bound, seeds) for bound in bounds]


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a binomial proportion (1927)."""
    z = 1.959964
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return centre - half, centre + half


def time_row() -> Row:
    """Time of one ratio with its interval."""
    rng = np.random.default_rng(0)
    a, b = trial_means(rng, 1, 10)[0], trial_means(rng, 1, 10)[0]
    seconds = []
    for _ in range(200):
        began = time.perf_counter()
        ratio_of(log_ratio(a, b))
        seconds.append(time.perf_counter() - began)
    return Row("one ratio with its interval", statistics.median(seconds), "s", "measured", len(seconds))
