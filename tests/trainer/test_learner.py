"""A worker with several devices trains as several workers with one each do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Devices can be divided only before TensorFlow starts, hence in a process of its own.
STORY = """
import json, sys
from tests.trainer.jobs import TinyJob, keras, tf
from trainer.errors import InvalidData
from trainer.gang import Gang
from trainer.input_pipeline import InputShare, eval_batches, list_files, train_batches
from trainer.learner import Learner
from trainer.scaling import ScalingPlan
from trainer.sharding import plan_sharding

devices = int(sys.argv[2])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
gang = Gang(tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)]), is_chief=True)
plan = ScalingPlan(replicas=devices, per_replica_batch_size=64 // devices, global_batch_size=64, learning_rate=0.005,
                   warmup_steps=0, steps_per_epoch=22, epochs=1, train_samples=1437)
job, files = TinyJob(), list_files(sys.argv[1] + "/train-*")
sharding = plan_sharding("auto", 8, 1, lambda: [])
share = InputShare(files=files, sharding=sharding, rank=0, local_replicas=devices, seed=0)
keras.utils.set_random_seed(1)
learner = Learner(gang, job, plan, tf.data.TFRecordDataset(files[0]).map(job.parse).element_spec)
batches = iter(gang.strategy.distribute_datasets_from_function(lambda _: train_batches(share, plan, job.parse, 0)))
learner.start_counting(0)
outcome = learner.run_steps(batches, 10, wants_stop=True)
evaluated = learner.evaluate(eval_batches(list_files(sys.argv[1] + "/eval-*"), 0, 1, 50, job.parse))
try:
    refusal = learner.evaluate(tf.data.TFRecordDataset([]).map(job.parse).batch(50))
except InvalidData as error:
    refusal = str(error)
print(json.dumps([outcome.sums, outcome.stop_wishes, learner.look()[1:], evaluated, refusal]))
"""


def story(digits: Path, devices: int) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", STORY, str(digits), str(devices)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


def test_two_devices_learn_what_one_does(digits: Path) -> None:
    (sums, wishes, counted, evaluated, refusal), one = story(digits, devices=2), story(digits, devices=1)
    assert (wishes, counted) == (1, [10, 8])  # 10 steps, and 8 batches of held-out samples
    assert evaluated["samples"] == 360
    assert refusal == "there are no held-out samples: the files of eval_data hold no records"
    assert sums == pytest.approx(one[0], rel=1e-4)
    assert evaluated == pytest.approx(one[3], rel=1e-4)
