"""Small DAGs with the tasks and results of the example, so that following a run is tested in seconds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.sdk import DAG, Param, dag, task

RESULT = {
    "step": 110,
    "epochs": 5,
    "workers": 2,
    "replicas": 2,
    "strategy": "MultiWorkerMirroredStrategy",
    "sharding": {"policy": "FILE", "files": 8, "workers": 2, "reason": "8 files are a multiple of 2 workers"},
    "scaling": {
        "per_replica_batch_size": 32,
        "global_batch_size": 64,
        "learning_rate": 0.002,
        "warmup_steps": 22,
        "steps_per_epoch": 22,
        "train_samples": 1437,
    },
    "metrics": {"loss": 0.1, "eval_accuracy": 0.9771},
    "seconds": {"rendezvous": 1.0, "train": 20.0, "export": 3.0},
}


def story(dag_id: str) -> DAG:
    @dag(
        dag_id=dag_id,
        schedule="@daily",
        start_date=datetime(2024, 1, 1),
        catchup=False,
        max_active_runs=1,
        params={"epochs": Param(5, type="integer"), "broken": False},
    )
    def tasks() -> None:
        @task
        def train(params: dict[str, Any] | None = None) -> dict[str, Any]:
            assert params is not None
            if params["broken"]:
                raise ValueError("worker 1 on node-b: exit code 1\nand more that nobody wants in one line")
            return {**RESULT, "epochs": params["epochs"]}

        @task
        def validate(trained: dict[str, Any]) -> dict[str, Any]:
            assert trained["step"] == 110
            return {
                "digest": "sha256:" + "ab" * 32,
                "files": 5,
                "size_bytes": 12345,
                "checkpoint": "checkpoints/step-110",
            }

        @task
        def register(validated: dict[str, Any]) -> dict[str, Any]:
            return {"name": "digits", "version": "1", "alias": "champion", "digest": validated["digest"]}

        register(validate(train()))

    return tasks()


daily = story("story_daily")
asked = story("story_asked")
broken = story("story_broken")
