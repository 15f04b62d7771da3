"""Whether a process forked from the warm parent can use its GPU: tried once a parent, before ranks are forked there.

Run in place of a worker, as one rank. Exit code 0: the GPU was found, a product on it is right, and the parent had
opened no device before. Has never met a real GPU.
"""

import sys

from tfscale.suite.plan import RankPlan

SIDE = 64


def main(plan: RankPlan) -> int:
    """0 when the forked process computes on its first GPU, else 1 with the reason in the log."""
    import numpy as np
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    if not devices:
        print("the forked process sees no GPU", file=sys.stderr)
        return 1
    with tf.device(devices[0].name):
        ones = tf.ones([SIDE, SIDE])
        product = (ones @ ones).numpy()
    if not np.array_equal(product, np.full((SIDE, SIDE), SIDE, np.float32)):
        print(f"a product of ones on {devices[0].name} is wrong: {product}", file=sys.stderr)
        return 1
    return 0
