"""A trial fork that never ends by itself. Not a test module."""

import time

from tfscale.suite.plan import RankPlan


def main(plan: RankPlan) -> int:
    time.sleep(600)
    return 0
