"""A large CPU trace: a jit-compiled training loop under the profiler.   python trace_capture.py LOGDIR STEPS"""

import json
import os
import sys

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import tensorflow as tf


def main() -> None:
    logdir, steps = sys.argv[1], int(sys.argv[2])
    filters = [
        tf.Variable(tf.random.normal([3, 3, a, b], stddev=0.1)) for a, b in ((3, 8), (8, 16), (16, 16), (16, 16))
    ]
    images = tf.random.normal([8, 32, 32, 3])

    @tf.function(jit_compile=True)
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            for weights in filters:
                x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME")), 2, 2, "SAME")
            loss = tf.reduce_mean(x**2)
        return tape.gradient(loss, filters)  # type: ignore[no-any-return]

    @tf.function
    def step() -> tf.Tensor:
        for weights, gradient in zip(filters, gradients(images), strict=True):
            weights.assign_sub(0.01 * gradient)
        return tf.reduce_sum(filters[0])

    for _ in range(5):
        step()
    tf.profiler.experimental.start(logdir)
    for number in range(steps):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            float(step())
    tf.profiler.experimental.stop()
    print(json.dumps({"steps": steps}))


if __name__ == "__main__":
    main()
