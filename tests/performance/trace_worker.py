"""One of two real workers whose steps are traced; the second may be slow. For the straggler measurement.

    TF_CONFIG=... python trace_worker.py LOGDIR STEPS none|input|compute

`input`: 60 ms of sleep for every batch on worker 1, without prefetching of ours. `compute`: matrix products of about
that length in worker 1's step.
"""

import json
import os
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
import tensorflow as tf

DELAY_S = 0.06
WARM_UP = 5
BATCH, WIDTH = 64, 256


def main() -> None:
    logdir, steps, slow = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    late = slow if index == 1 else "none"
    tf.config.threading.set_inter_op_parallelism_threads(2)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
    )

    def wait(x: tf.Tensor) -> tf.Tensor:
        def sleep(value: tf.Tensor) -> tf.Tensor:
            time.sleep(DELAY_S)
            return value

        y = tf.numpy_function(lambda value: sleep(value), [x], tf.float32)
        y.set_shape([BATCH, WIDTH])
        return y

    def made(_: tf.distribute.InputContext) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensors(tf.random.normal([BATCH, WIDTH])).repeat()
        return data.map(wait) if late == "input" else data

    options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
    iterator = iter(strategy.distribute_datasets_from_function(made, options))
    with strategy.scope():
        weights = [tf.Variable(tf.random.normal([WIDTH, WIDTH], stddev=0.05)) for _ in range(4)]

    def replica(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(y @ weight)
            loss = tf.reduce_mean(y**2)
        gradients = tape.gradient(loss, weights)
        if late == "compute":
            # Its result is needed for the gradients, so that it comes before the collective.
            big = tf.random.normal([1024, 1024])
            for _ in range(4):
                big = tf.tanh(big @ big)
            gradients = [gradient + 0.0 * tf.reduce_mean(big) for gradient in gradients]
        means = tf.distribute.get_replica_context().all_reduce("SUM", gradients)
        for weight, mean in zip(weights, means, strict=True):
            weight.assign_sub(0.01 * mean)
        return loss

    @tf.function
    def step(source: object) -> tf.Tensor:
        return strategy.run(replica, args=(next(source),))

    for _ in range(WARM_UP):
        step(iterator)
    tf.profiler.experimental.start(logdir)
    for number in range(steps):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            float(strategy.experimental_local_results(step(iterator))[0])
    tf.profiler.experimental.stop()
    print(json.dumps({"worker": index}))


if __name__ == "__main__":
    main()
