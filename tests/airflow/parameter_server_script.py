"""A program of somebody else's that trains with parameter servers, and knows nothing of Lockstep: TF_CONFIG is enough.

Workers of TensorFlow's ParameterServerStrategy serve for ever; these leave when the chief has written its result to the
file that is the only argument.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import tensorflow as tf

result = Path(sys.argv[1])
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()


def serve() -> None:
    cluster, role, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
    server = tf.distribute.Server(cluster, job_name=role, task_index=index, protocol="grpc")
    if role == "ps":
        server.join()
    while not result.exists():
        time.sleep(0.1)


def train() -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weight = tf.Variable(0.0)

    @tf.function
    def step() -> None:
        weight.assign_add(1.0)

    for _ in range(10):
        coordinator.schedule(step)
    coordinator.join()
    result.write_text(f"{weight.numpy():g} on {weight.device}")


if resolver.task_type == "chief":
    train()
else:
    serve()
