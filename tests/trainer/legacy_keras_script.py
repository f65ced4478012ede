"""A script as people have them: legacy Keras, `model.fit`, its own backup; it knows nothing of Lockstep."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf
import tf_keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
features = np.linspace(-1, 1, 64, dtype=np.float32).reshape(64, 1)
dataset = tf.data.Dataset.from_tensor_slices((features, 3 * features)).repeat().batch(16)

with strategy.scope():
    model = tf_keras.Sequential([tf_keras.layers.Input((1,)), tf_keras.layers.Dense(1)])
    model.compile(optimizer=tf_keras.optimizers.SGD(0.5), loss="mse")

backup = tf_keras.callbacks.BackupAndRestore(sys.argv[1])
history = model.fit(dataset, epochs=3, steps_per_epoch=8, callbacks=[backup], verbose=0)
print(f"replicas={strategy.num_replicas_in_sync} loss={history.history['loss'][-1]:.6f}", flush=True)
