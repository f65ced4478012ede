"""All workers together: what they agree on through collectives.

Every method is a collective: all workers call it, in the same order. A single worker agrees with itself.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Gang:
    """A strategy, and whether this worker is its chief."""

    def __init__(self, strategy: tf.distribute.Strategy, is_chief: bool) -> None:
        self.strategy = strategy
        self.is_chief = is_chief
        self._compiled_sum = tf.function(self.sum, reduce_retracing=True)

    @property
    def local_replicas(self) -> int:
        """Devices of this worker that train."""
        return len(self.strategy.extended.worker_devices)

    def local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of this worker's own replicas. No collective."""
        return tuple(self.strategy.experimental_local_results(value))

    def sum(self, values: Any) -> Any:
        """Add up one tensor per worker, inside a tf.function. First replicas contribute, further ones add zeros."""

        def contribution() -> Any:
            replica = tf.convert_to_tensor(tf.distribute.get_replica_context().replica_id_in_sync_group)
            is_first = tf.equal(replica % self.local_replicas, 0)
            return tf.where(is_first, values, tf.zeros_like(values))

        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, self.strategy.run(contribution), axis=None)

    def total(self, values: Any) -> Any:
        """`sum` for calls from plain Python; returns a NumPy array."""
        return self._compiled_sum(tf.convert_to_tensor(values)).numpy()

    def from_chief(self, value: Any) -> Any:
        """Every worker gets the chief's value, as a NumPy array."""
        own = tf.convert_to_tensor(value)
        return self.total(own if self.is_chief else tf.zeros_like(own))

    def meet(self) -> None:
        """Return once all workers have come here."""
        self.total(tf.constant(1, tf.int64))

    def try_to_meet(self) -> bool:
        """`meet`; False when a peer is gone, or left before this worker heard of the meeting."""
        try:
            self.meet()
        except tf.errors.OpError:
            return False
        return True
