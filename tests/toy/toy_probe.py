"""A trial fork that always passes. Not a test module."""

from tfscale.suite.plan import RankPlan


def main(plan: RankPlan) -> int:
    return 0
