"""What a host of a TPU slice runs: TensorFlow's server, until it is ended. Never run on a TPU pod.

One process elsewhere drives all hosts. TensorFlow's own client of the TPU service expects each host to serve as
`tpu_worker` on port 8470, and its TPU library to know the host under the name that the others call it.
"""

import os
import sys
from collections.abc import Mapping

from tfscale.suite.launchers.kubernetes.pods import TPU_PORT

JOB = "tpu_worker"


def own_name(environment: Mapping[str, str]) -> str:
    """The name of this host among those of the slice. Raises ValueError where the variables do not say it."""
    names = [name for name in environment.get("TPU_WORKER_HOSTNAMES", "").split(",") if name]
    index = environment.get("TPU_WORKER_ID", "")
    if not index.isdecimal() or int(index) >= len(names):
        raise ValueError(f"TPU_WORKER_ID {index!r} is the number of none of the {len(names)} TPU_WORKER_HOSTNAMES")
    return names[int(index)]


def serve(port: int = TPU_PORT) -> None:
    """Serve for ever. TensorFlow listens on every interface and asks nobody who he is: see the NetworkPolicy."""
    import tensorflow as tf

    tf.distribute.Server({JOB: [f"localhost:{port}"]}, job_name=JOB, task_index=0, protocol="grpc").join()


def main() -> None:
    try:
        # Read when the TPU library is loaded, so before TensorFlow is imported.
        os.environ["TPU_HOSTNAME_OVERRIDE"] = own_name(os.environ)
    except ValueError as error:
        print(f"tpuserver: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    serve()


if __name__ == "__main__":
    main()
