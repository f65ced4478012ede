"""What operators share whose work is done by a gang of pods: launch it, wait for it in the triggerer or here, end it.

A subclass says which gang (`spec`; `execute` calls `run_gang`) and what its success means (`conclude`).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowTaskTimeout

from lockstep.airflow_errors import airflow_error, told_to_airflow
from lockstep.airflow_state import goes_on
from lockstep.deployment import chosen_queue, chosen_scheduling, deployment, required
from lockstep.endable_work import EndableWork, ToldToStop
from lockstep.errors import GangEnded, GangTimedOut, LockstepError, TaskStopped
from lockstep.failed_attempt import FailedAttempt
from lockstep.links import RunDirectoryLink
from lockstep.loopback_ports import free_loopback_ports
from lockstep.names import GangId
from lockstep.parsing import parse, to_json
from lockstep.pod_plan import plan_gang, replan
from lockstep.removal import Removal
from lockstep.restart_policy import RestartPolicy, Restarts, backoff_s, next_restart
from lockstep.run_directory import run_url
from lockstep.running_gang import RunningGang
from lockstep.training_spec import TrainingSpec
from lockstep.triggers.pause import PauseTrigger
from lockstep.worker_pod import checked_pod_options

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from lockstep.connected_gang import ConnectedGang
    from lockstep.pod_plan import GangPlan

T = TypeVar("T")


class GangOperator(BaseOperator):
    """The pods and where they run. What is not given is the deployment's.

    :param image: the trainer's image.
    :param worker_resources: each pod's `cpu`, `memory` and `gpu` (`lockstep.training_spec.Resources`).
    :param timeouts: seconds: `queue_s`, `startup_s`, `run_s`, `rendezvous_s`, `stall_s`, `grace_s`.
    :param restarts: how often the gang is started anew: `max_infra_restarts`, `max_user_restarts`, `backoff_s`,
        `max_backoff_s` (`lockstep.restart_policy.RestartPolicy`).
    :param env: further environment variables; secrets belong into `pod_options`, by reference.
    :param run_directory: gs:// directory of the run; default: `<run_root>/<dag>/<run>`.
    :param namespace: where the pods are created.
    :param service_account: under which they run.
    :param kubernetes_conn_id: Airflow connection to the cluster.
    :param gang_scheduling: who starts the pods all at once or not at all: `kueue`, `volcano`, `coscheduling`, `native`
        (Kubernetes itself), or `none`, where the deployment has chosen one.
    :param gang_queue: the queue: Kueue's LocalQueue, or Volcano's. (`queue` is Airflow's own, of its workers.)
    :param network_policy: whether the gang gets a network policy of its own, which lets in none but its pods.
    :param clean_up: which pods go at the end: all (`delete`), all but the ended ones of a failed gang
        (`delete_succeeded`), or none that has ended (`keep`). What still runs is always deleted.
    :param logs: whose log the task's log shows while they train: `chief`, or `all` with a prefix for each.
    :param pod_options: any argument of KubernetesPodOperator that describes a pod.
    :param deferrable: wait in the triggerer, holding no worker slot; the same supervision either way.
    """

    template_fields: Sequence[str] = (
        "image",
        "worker_resources",
        "timeouts",
        "restarts",
        "clean_up",
        "logs",
        "env",
        "run_directory",
        "namespace",
        "service_account",
        "kubernetes_conn_id",
        "gang_scheduling",
        "gang_queue",
        "network_policy",
        "pod_options",
    )
    template_fields_renderers = {  # noqa: RUF012 - Airflow reads a plain dict
        "worker_resources": "json",
        "timeouts": "json",
        "restarts": "json",
        "env": "json",
    }
    operator_extra_links = (RunDirectoryLink(),)
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        image: str | None = None,
        worker_resources: Mapping[str, Any] | None = None,
        timeouts: Mapping[str, Any] | None = None,
        restarts: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        run_directory: str | None = None,
        namespace: str | None = None,
        service_account: str | None = None,
        kubernetes_conn_id: str | None = None,
        gang_scheduling: str | None = None,
        gang_queue: str | None = None,
        network_policy: bool | None = None,
        clean_up: str | None = None,
        logs: str | None = None,
        pod_options: Mapping[str, Any] | None = None,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.image = image
        self.worker_resources = worker_resources
        self.timeouts = timeouts
        self.restarts = restarts
        self.env = env
        self.run_directory = run_directory
        self.namespace = namespace
        self.service_account = service_account
        self.kubernetes_conn_id = kubernetes_conn_id
        self.gang_scheduling = gang_scheduling
        self.gang_queue = gang_queue
        self.network_policy = network_policy
        self.clean_up = clean_up
        self.logs = logs
        self.pod_options = pod_options
        self.deferrable = deferrable
        self._running_plan: GangPlan | None = None
        self._launched: str | None = None
        self._another_try = False
        self._work = EndableWork()

    def spec(self, context: Context) -> TrainingSpec:
        """Everything asked of this task. Raises InvalidSpec."""
        raise NotImplementedError

    def conclude(self, context: Context) -> Any:
        """The task's XCom, once every worker has returned 0."""
        raise NotImplementedError

    def plan(self, context: Context) -> GangPlan:
        """The gang as values: what is launched, and what tests assert on."""
        spec = self.spec(context)
        ports = free_loopback_ports(len(spec.members)) if spec.rendezvous == "loopback" else ()
        return plan_gang(spec, gang_of(context), attempt=1, loopback_ports=ports)

    def dry_run(self) -> None:
        """Print the manifests, of a run called `dry_run`: which one it is, Airflow does not say here."""
        from airflow.sdk.types import TaskInstanceKey

        from lockstep.gang_manifests import as_yaml, gang_manifests

        ti = TaskInstanceKey(dag_id=self.dag_id, task_id=self.task_id, run_id="dry_run")
        print(as_yaml(gang_manifests(self.plan(cast("Context", {"ti": ti})))), end="")

    def run_url(self, context: Context) -> str:
        """The run directory of this task instance."""
        return self.directory_of(context["ti"])

    def directory_of(self, ti: Any) -> str:
        """The same, for whoever has no more than the key of the task instance (`lockstep.links`)."""
        return self.run_directory or run_url(required(deployment().run_root, "run_root"), gang_id(ti))

    def first_attempt(self, context: Context) -> int:
        """The number of this try's first attempt; those of one run directory are told apart by it."""
        return 1

    def attempt_failed(self, context: Context, running: RunningGang, failed: FailedAttempt) -> str:
        """What it means for the next attempt, in one clause."""
        return "it begins anew"

    def run_gang(self, plan: GangPlan, context: Context) -> Any:
        """Launch the gang and see it through, over restarts; does not return where the task is deferred."""
        with told_to_airflow():
            self._policy()  # refused before anything is created
            plan = replan(plan, self.first_attempt(context))
            return self._see_through(plan, context, Restarts(), _deadline(self, context))

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        """Called by Airflow when the trigger that watches an attempt has fired."""
        with told_to_airflow():
            running, restarts = _told(event)
            if "failed" not in event:
                self.log.info("Every worker has returned 0 (pods %s)", ", ".join(event["uids"]))
                return self._concluded(context, running)
            failed = parse(FailedAttempt, event["failed"], what="event")
            if failed.kind is None:  # it may be the cluster that the triggerer could not reach
                self._end_what_runs(running)
            more = self._restart(failed, running, restarts, context)
            moment = time.time() + backoff_s(self._policy(), more)
            pause = PauseTrigger(moment, {"running": event["running"], "restarts": to_json(more)})
            return self.defer(trigger=pause, method_name=self.relaunch.__name__)

    def relaunch(self, context: Context, event: dict[str, Any]) -> Any:
        """Called by Airflow when the pause before a restart is over."""
        with told_to_airflow():
            before, restarts = _told(event)
            if _is_over(before.deadline, within_s=0):
                raise GangTimedOut(
                    f"{before.gang}: execution_timeout passed before restart {restarts.total} could begin"
                )
            plan = replan(self.plan(context), before.attempt + 1)
            return self._see_through(plan, context, restarts, before.deadline)

    def _see_through(self, plan: GangPlan, context: Context, restarts: Restarts, deadline: float | None) -> Any:
        self._another_try = context["ti"].try_number <= context["ti"].max_tries
        while True:
            self._running_plan, self._launched = plan, None
            again = _launched_before(plan, context)
            running = self._run(self._connected(plan.spec.namespace).launch(plan, deadline, again=again), plan)
            self._launched = running.launch
            if self.deferrable:
                return self._defer(running, restarts)
            if (failed := self._watch_here(running, plan)) is None:
                return self._concluded(context, running)
            restarts = self._restart(failed, running, restarts, context)
            self._run(asyncio.sleep(backoff_s(self._policy(), restarts)), plan)
            plan = replan(plan, running.attempt + 1)

    def _defer(self, running: RunningGang, restarts: Restarts) -> Any:
        from lockstep.triggers.gang import gang_trigger

        self.log.info("Waiting in the triggerer; pods: %d", running.workers)
        trigger = gang_trigger(running, restarts, self._conn_id())
        return self.defer(trigger=trigger, method_name=self.resume.__name__)

    def _watch_here(self, running: RunningGang, plan: GangPlan) -> FailedAttempt | None:
        """None once every worker has returned 0."""
        try:
            self._run(self._connected(running.namespace).supervise(running), plan)
        except GangEnded as ended:
            return FailedAttempt.of(ended)
        return None

    def _end_what_runs(self, running: RunningGang) -> None:
        try:
            asyncio.run(self._connected(running.namespace).end(running))
        except LockstepError as away:
            self.log.warning("The pods of %s may still run: %s", running.gang, away)

    def _concluded(self, context: Context, running: RunningGang) -> Any:
        self._running_plan = None  # there is nothing left to kill
        try:
            asyncio.run(self._connected(running.namespace).leave(running))
        except LockstepError as away:
            self.log.warning("The pods of %s, which have ended, are not deleted: %s", running.gang, away)
        return self.conclude(context)

    def _restart(self, failed: FailedAttempt, running: RunningGang, so_far: Restarts, context: Context) -> Restarts:
        """The restarts with one more, which is told in the log; raises what ends the task where there is none."""
        policy = self._policy()
        more = next_restart(policy, so_far, failed.kind)
        cost = self.attempt_failed(context, running, failed)
        if more is None or _is_over(running.deadline, within_s=backoff_s(policy, more)):
            given_up = f"; given up after restart {so_far.total}" if so_far.total else ""
            raise airflow_error(f"{failed.error}{given_up}", retryable=failed.retryable)
        self.log.warning("Attempt %d has failed (%s): %s", running.attempt, failed.kind, failed.error)
        self.log.warning("Restart %d in %g s; %s", more.total, backoff_s(policy, more), cost)
        return more

    def _policy(self) -> RestartPolicy:
        return parse(RestartPolicy, self.restarts or {}, what=f"{self.task_id}.restarts")

    def on_kill(self) -> None:
        """Called by Airflow when this process is told to stop; while deferred it is the trigger that is told.

        On SIGTERM that is in a signal handler, in the midst of whatever runs: running work is only asked to end.
        """
        if self._work.stop() or self._running_plan is None:
            return
        timed_out = isinstance(sys.exception(), AirflowTaskTimeout)  # Airflow calls this while it handles one, too
        if timed_out or not self._left_to_next_try(self._running_plan):
            self._kill(self._running_plan)

    def _run(self, work: Coroutine[Any, Any, T], plan: GangPlan) -> T:
        """What `work` returns. Raises TaskStopped if the task was told to stop.

        An `execution_timeout` is raised wherever the event loop happens to be, and may come out as another error.
        """
        try:
            return self._work.run(work)
        except ToldToStop:
            raise self._stopped(plan) from None
        except LockstepError:
            raise
        except BaseException:
            self._kill(plan)
            raise

    def _stopped(self, plan: GangPlan) -> TaskStopped:
        """A person who ends the task ends the gang; who shuts an Airflow worker down leaves it to the next try.

        So does Airflow where it has lost the process and given the task to another.
        """
        if self._left_to_next_try(plan):
            return TaskStopped(
                f"{plan.gang}: this process is to stop, the task is not; the pods go on, for the next try to take over"
            )
        self._kill(plan)
        return TaskStopped(f"{plan.gang}: Airflow told the task to stop, and its pods were ended with it")

    def _left_to_next_try(self, plan: GangPlan) -> bool:
        return self._another_try and goes_on(plan.gang)

    def _spec(self, context: Context, **asked: Any) -> TrainingSpec:
        """`asked` of the gang, in pods as they were given to this operator."""
        site = deployment()
        scheduling = chosen_scheduling(site, self.gang_scheduling)
        given = asked | {
            "image": self.image or required(site.image, "image"),
            "run_directory": self.run_url(context),
            "namespace": self.namespace or site.namespace,
            "service_account": self.service_account or site.service_account,
            "resources": self.worker_resources,
            "env": self.env,
            "rendezvous": site.rendezvous,
            "timeouts": self.timeouts,
            "clean_up": self.clean_up,
            "logs": self.logs,
            "gang_scheduling": scheduling,
            "gang_queue": chosen_queue(site, scheduling, self.gang_queue),
            "network_policy": site.network_policy if self.network_policy is None else self.network_policy,
            "pod_options": checked_pod_options(self.pod_options or {}),
        }
        return parse(TrainingSpec, {key: value for key, value in given.items() if value is not None}, what=self.task_id)

    def _kill(self, plan: GangPlan) -> None:
        """Only the launch of this process, once it is known; why the task ends is told by whoever calls."""
        spec = plan.spec
        removal = Removal(plan.gang, self._launched, spec.timeouts.grace_s, keep_ended=spec.clean_up != "delete")
        try:
            asyncio.run(self._connected(spec.namespace).kill(removal))
        except LockstepError as failure:
            self.log.error("The pods of %s could not be deleted: %s", plan.gang, failure)
        else:
            self.log.info("The task was told to stop; the pods of %s are being deleted", plan.gang)

    def _connected(self, namespace: str) -> ConnectedGang:
        from lockstep.connected_gang import ConnectedGang

        return ConnectedGang(conn_id=self._conn_id(), namespace=namespace)

    def _conn_id(self) -> str:
        return self.kubernetes_conn_id or deployment().kubernetes_conn_id


def gang_of(context: Context) -> GangId:
    """The gang of this task instance: the same one in every try."""
    return gang_id(context["ti"])


def gang_id(ti: Any) -> GangId:
    return GangId(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        installation=deployment().installation,
    )


def _told(event: dict[str, Any]) -> tuple[RunningGang, Restarts]:
    """What a trigger was given to pass on."""
    return parse(RunningGang, event["running"], what="event"), parse(Restarts, event["restarts"], what="event")


def _launched_before(plan: GangPlan, context: Context) -> bool:
    return plan.attempt > 1 or context["ti"].try_number > 1


def _is_over(deadline: float | None, *, within_s: float) -> bool:
    return deadline is not None and time.time() + within_s >= deadline


def _deadline(operator: BaseOperator, context: Context) -> float | None:
    started = context["ti"].start_date
    if operator.execution_timeout is None or started is None:
        return None
    return float((started + operator.execution_timeout).timestamp())
