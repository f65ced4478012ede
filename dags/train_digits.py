"""Every night a small convolutional network learns to read handwritten digits, on as many workers as one asks for.

Wiring only: shards are prepared in a pod, their division among the workers is checked, a gang trains, what it left is
validated, and the model is registered. Where all this happens is the deployment's to say (`lockstep.deployment`).
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk import DAG, Asset, Param

from lockstep.deployment import deployment
from lockstep.operators.check_sharding import CheckShardingOperator
from lockstep.operators.preflight import PreflightOperator
from lockstep.operators.register import RegisterModelOperator
from lockstep.operators.train import DistributedTrainingOperator
from lockstep.operators.validate import ValidateCheckpointOperator
from lockstep.pod_security import RESTRICTED

site = deployment()

DATASET = (
    "{{ params.dataset or '" + (site.run_root or "gs://set-run-root-in-the-lockstep-section") + "/datasets/digits' }}"
)
TRAIN_DATA = DATASET + "/train-*-of-{{ '%05d' % params.files }}.tfrecord"
EVAL_DATA = DATASET + "/eval-*.tfrecord"

with DAG(
    dag_id="train_digits",
    description="Handwritten digits: prepare, train on several workers, validate, register",
    doc_md=__doc__,
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["lockstep", "example"],
    # For what befalls Airflow itself: a slow scheduler fails a deferred task that has resumed (apache/airflow#72716).
    # What a person has to mend fails at once all the same.
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "workers": Param(
            2,
            type="integer",
            minimum=1,
            maximum=64,
            title="Workers",
            description_md="Pods that train together. 1 trains with `MirroredStrategy`, more with "
            "`MultiWorkerMirroredStrategy`; the job's code is the same.",
        ),
        "epochs": Param(8, type="integer", minimum=1, maximum=1000, title="Epochs"),
        "per_replica_batch_size": Param(
            32,
            type="integer",
            minimum=1,
            maximum=4096,
            title="Batch size per replica",
            description_md="The global batch is this times the replicas.",
        ),
        "learning_rate": Param(
            0.001,
            type="number",
            exclusiveMinimum=0,
            maximum=1,
            title="Learning rate for one replica",
            description_md="Grows with the global batch, after a warm-up of one epoch.",
        ),
        "sharding": Param(
            "auto",
            enum=["auto", "file", "data"],
            title="Sharding policy",
            description_md="`file`: each worker reads its own files. `data`: each reads all and keeps its share. "
            "`auto`: `file` where the files divide evenly among the workers, otherwise `data`.",
        ),
        "files": Param(8, type="integer", minimum=1, maximum=512, title="TFRecord files to train from"),
        "dataset": Param(
            None,
            type=["null", "string"],
            pattern="^gs://.+",
            title="Data set",
            description_md="`gs://` folder where the digits are written, as TFRecord files, and then read; "
            "empty: `datasets/digits` under the run root.",
        ),
        "max_infra_restarts": Param(
            3,
            type="integer",
            minimum=0,
            maximum=100,
            title="Restarts",
            description_md="How often the gang is started anew, from its newest backup, after the machines have ended "
            "it: an eviction, a lost node, a stall; a worker that was killed without a word once.",
        ),
        "model_name": Param("digits", type="string", minLength=1, title="Registered model"),
        "alias": Param("champion", type="string", minLength=1, title="Alias that the new version gets"),
        "min_accuracy": Param(
            0.95,
            type="number",
            minimum=0,
            maximum=1,
            title="Least accuracy",
            description_md="Measured on the held-out digits; a model below it is not registered.",
        ),
        "seed": Param(0, type="integer", minimum=0, title="Seed"),
    },
) as dag:
    preflight = PreflightOperator(
        task_id="preflight", model_name="{{ params.model_name }}", alias="{{ params.alias }}", writes_to=[DATASET]
    )

    prepare_shards = KubernetesPodOperator(
        task_id="prepare_shards",
        name="prepare-digits",
        kubernetes_conn_id=site.kubernetes_conn_id,
        namespace=site.namespace,
        service_account_name=site.service_account,
        image=site.image,
        cmds=["python", "-m", "trainer.examples.digits", "prepare"],
        arguments=["--output", DATASET, "--files", "{{ params.files }}"],
        **RESTRICTED,
    )

    check_sharding = CheckShardingOperator(
        task_id="check_sharding",
        train_data=TRAIN_DATA,
        eval_data=EVAL_DATA,
        workers="{{ params.workers }}",
        sharding="{{ params.sharding }}",
    )

    train = DistributedTrainingOperator(
        task_id="train",
        workers="{{ params.workers }}",
        training={
            "job": "trainer.examples.digits:DigitsJob",
            "train_data": TRAIN_DATA,
            "eval_data": EVAL_DATA,
            "sharding": "{{ params.sharding }}",
            "epochs": "{{ params.epochs }}",
            "per_replica_batch_size": "{{ params.per_replica_batch_size }}",
            "learning_rate": "{{ params.learning_rate }}",
            "seed": "{{ params.seed }}",
        },
        restarts={"max_infra_restarts": "{{ params.max_infra_restarts }}"},
        retries=0,  # a person asks for "Restarts", and gets as many
    )

    validate = ValidateCheckpointOperator(
        task_id="validate", min_metrics={"eval_accuracy": "{{ params.min_accuracy }}"}
    )

    register = RegisterModelOperator(
        task_id="register",
        model_name="{{ params.model_name }}",
        alias="{{ params.alias }}",
        validated=validate.output,
        outlets=[Asset(name="digits_model", uri="lockstep://models/digits")],
    )

    preflight >> prepare_shards >> check_sharding >> train >> validate >> register
