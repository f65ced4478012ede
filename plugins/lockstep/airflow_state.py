"""What Airflow says of the task instance that a gang belongs to. Asked by the task itself, through the Task SDK."""

from __future__ import annotations

import logging
import threading

from lockstep.names import GangId

log = logging.getLogger(__name__)


GOES_ON = frozenset({"running", "deferred", "up_for_retry", "scheduled", "queued"})
"""In all but the first, Airflow has given the asking process up, and the next try looks after the gang, or will. One
that a person clears while it runs is `restarting`."""


ANSWER_WITHIN_S = 10.0


def goes_on(gang: GangId) -> bool:
    """Whether its task instance is to go on, for all that Airflow knows; not where Airflow cannot be asked.

    May be called in a signal's handler, which may have come in the midst of a message to Airflow: the lock of that
    channel is then held until the handler returns. Hence the thread, and the answer yes: the task is at its end then,
    and tells Airflow so.
    """
    answers: list[bool] = []
    asking = threading.Thread(target=lambda: answers.append(_goes_on(gang)), daemon=True)
    asking.start()
    asking.join(ANSWER_WITHIN_S)
    return answers[0] if answers else True


def _goes_on(gang: GangId) -> bool:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        states = RuntimeTaskInstance.get_task_states(
            dag_id=gang.dag_id, task_ids=[gang.task_id], run_ids=[gang.run_id], map_index=gang.map_index
        )
    except Exception as failure:
        log.warning("Airflow could not be asked for the state of %s: %s", gang, failure)
        return False
    return not GOES_ON.isdisjoint(states.get(gang.run_id, {}).values())
