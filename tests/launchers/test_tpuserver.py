"""The server of a slice's host. CPUs stand for the TPUs: who connects, and that one process drives both hosts, is real."""

import json
import os
import subprocess
import sys

import pytest

from tfscale.suite.launchers.kubernetes.tpuserver import own_name
from tfscale.suite.launchers.ports import free_ports

CLIENT = """
import json, socket, sys, time
import tensorflow as tf  # while the servers import it too

def wait(port):
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)

for server in sys.argv[1].split(","):
    wait(int(server.rpartition(":")[2]))
resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=sys.argv[1])
tf.config.experimental_connect_to_cluster(resolver)
ran = []
for task in range(2):
    with tf.device(f"/job:worker/replica:0/task:{task}/device:CPU:0"):
        ran.append((tf.constant(task) + 1).device)
print(json.dumps(ran), flush=True)
"""


def test_a_host_finds_its_name_by_its_number() -> None:
    assert own_name({"TPU_WORKER_HOSTNAMES": "a.s,b.s", "TPU_WORKER_ID": "1"}) == "b.s"


@pytest.mark.parametrize("index", ["2", "-1", "", "one"])
def test_a_number_of_no_host_is_an_error(index: str) -> None:
    with pytest.raises(ValueError, match="none of the 2 TPU_WORKER_HOSTNAMES"):
        own_name({"TPU_WORKER_HOSTNAMES": "a,b", "TPU_WORKER_ID": index})


@pytest.mark.system
@pytest.mark.tensorflow
def test_one_process_drives_the_servers_of_two_hosts() -> None:
    pytest.importorskip("tensorflow")
    ports = free_ports(2)
    server = "import sys; from tfscale.suite.launchers.kubernetes.tpuserver import serve; serve(int(sys.argv[1]))"
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    servers = [
        subprocess.Popen([sys.executable, "-c", server, str(port)], env=hidden, stderr=subprocess.DEVNULL)
        for port in ports
    ]
    try:
        name = ",".join(f"grpc://127.0.0.1:{port}" for port in ports)
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, name], env=hidden, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert json.loads(done.stdout) == [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)]
    finally:
        for process in servers:
            process.kill()
            process.wait()
