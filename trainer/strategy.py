"""Which tf.distribute strategy a worker trains with: the only place where one machine and many differ.

The constructor of the multi-worker strategy waits for all peers inside C code that no Python signal, thread or timer
interrupts; call it after the rendezvous, inside `hard_deadline`.
"""

from __future__ import annotations

import tensorflow as tf


def make_strategy(workers: int) -> tf.distribute.Strategy:
    """MultiWorkerMirroredStrategy for a gang, MirroredStrategy over this pod's GPUs (or its CPU) for a worker alone."""
    if workers > 1:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if tf.config.list_logical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    return tf.distribute.MirroredStrategy(devices=["CPU:0"])


def strategy_name(workers: int) -> str:
    return "MultiWorkerMirroredStrategy" if workers > 1 else "MirroredStrategy"
