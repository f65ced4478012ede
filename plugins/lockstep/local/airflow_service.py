"""The stack's Airflow: its settings and its four processes.

Everything is said in variables, so that no `airflow.cfg` has to be kept in step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lockstep.local.keys import AirflowKeys
from lockstep.local.kube_service import TRAINER_IMAGE
from lockstep.local.layout import BUCKET, StackLayout
from lockstep.local.mlflow_service import mlflow_url
from lockstep.local.ports import LOOPBACK
from lockstep.local.probe import AirflowProbe, HttpProbe, Probe
from lockstep.local.service import Service, base_environment
from lockstep.local.storage_service import client_environment

API_SERVER = "api-server"
KUBERNETES_CONNECTION = "kubernetes_default"
RUN_ROOT = f"gs://{BUCKET}/runs"


def airflow_services(layout: StackLayout, ports: Mapping[str, int], keys: AirflowKeys) -> tuple[Service, ...]:
    """Return the four processes. Those that can serve logs over the network do not: all read the same folder."""
    url = airflow_url(ports)
    env = base_environment(layout) | airflow_environment(layout, ports, keys)

    def component(name: str, *argv: str, ready: Probe) -> Service:
        return Service(name=name, argv=argv, env=env, cwd=layout.airflow_home, ready=ready, url=url)

    def heartbeat(name: str) -> AirflowProbe:
        return AirflowProbe(api_url=url, component=name)

    airflow, python = str(layout.programs / "airflow"), str(layout.programs / "python")
    warm_scheduler = (python, "-m", "lockstep.local.warm_scheduler", "--skip-serve-logs")
    return (
        component(API_SERVER, airflow, "api-server", ready=HttpProbe(url=f"{url}/api/v2/version")),
        component("scheduler", *warm_scheduler, ready=heartbeat("scheduler")),
        component("dag-processor", airflow, "dag-processor", ready=heartbeat("dag_processor")),
        component("triggerer", airflow, "triggerer", "--skip-serve-logs", ready=heartbeat("triggerer")),
    )


def airflow_url(ports: Mapping[str, int]) -> str:
    return f"http://{LOOPBACK}:{ports[API_SERVER]}"


def airflow_environment(layout: StackLayout, ports: Mapping[str, int], keys: AirflowKeys) -> dict[str, str]:
    """Return what a process needs to be part of this Airflow, and to use the stack from a DAG."""
    settings = core_settings(layout, ports, keys) | pace_settings() | lockstep_settings(ports)
    variables = {f"AIRFLOW__{name.upper().replace('.', '__')}": value for name, value in settings.items()}
    return (
        variables
        | client_environment(ports)
        | {
            "AIRFLOW_HOME": str(layout.airflow_home),
            "AIRFLOW_CONN_KUBERNETES_DEFAULT": kubernetes_connection(layout),
            "MLFLOW_TRACKING_URI": mlflow_url(ports),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            # Airflow's own, and the first line of every task's log.
            "PYTHONWARNINGS": "ignore:GitWildMatchPattern:DeprecationWarning",
        }
    )


def core_settings(layout: StackLayout, ports: Mapping[str, int], keys: AirflowKeys) -> dict[str, str]:
    url = airflow_url(ports)
    return {
        "core.dags_folder": str(layout.dags),
        "core.plugins_folder": str(layout.plugins),
        "core.load_examples": "False",
        "core.executor": "LocalExecutor",
        "core.auth_manager": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
        "core.simple_auth_manager_all_admins": "True",
        "core.execution_api_server_url": f"{url}/execution/",
        "core.fernet_key": keys.fernet_key,
        "api.host": LOOPBACK,
        "api.port": str(ports[API_SERVER]),
        "api.base_url": url,
        "api.workers": "1",
        "api.instance_name": "Lockstep on one machine",
        "api.secret_key": keys.secret_key,
        "api_auth.jwt_secret": keys.jwt_secret,
        # Whoever finds the file locked waits: five seconds, Python's own, are too few on a busy machine.
        "database.sql_alchemy_conn": f"sqlite:///{layout.airflow_home / 'airflow.db'}?timeout=60",
        "logging.base_log_folder": str(layout.airflow_home / "logs"),
    }


def pace_settings() -> dict[str, str]:
    """Return settings for two cores and one person: little runs at the same time, and changes are seen soon."""
    return {
        "core.parallelism": "8",
        "scheduler.enable_health_check": "False",
        "scheduler.scheduler_idle_sleep_time": "0.5",
        "dag_processor.parsing_processes": "1",
        "dag_processor.refresh_interval": "5",
        # A changed file is parsed at once all the same; this is for those that did not change.
        "dag_processor.min_file_process_interval": "120",
        "api.auto_refresh_interval": "2",
    }


def lockstep_settings(ports: Mapping[str, int]) -> dict[str, str]:
    return {
        "lockstep.kubernetes_conn_id": KUBERNETES_CONNECTION,
        "lockstep.namespace": "default",
        "lockstep.image": TRAINER_IMAGE,
        "lockstep.run_root": RUN_ROOT,
        "lockstep.rendezvous": "loopback",
        "lockstep.mlflow_tracking_uri": mlflow_url(ports),
    }


def kubernetes_connection(layout: StackLayout) -> str:
    extra = {"kube_config_path": str(layout.kubeconfig), "namespace": "default"}
    return json.dumps({"conn_type": "kubernetes", "extra": extra})
