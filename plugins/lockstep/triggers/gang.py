"""The supervisor, when the task is deferred: watches, and removes the gang at its end or when a person ends the task.

A triggerer that stops leaves the gang running for the next one, which watches on from what it finds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from lockstep.connected_gang import ConnectedGang
from lockstep.errors import LockstepError
from lockstep.failed_attempt import FailedAttempt
from lockstep.parsing import parse, to_json
from lockstep.removal import removal_of
from lockstep.restart_policy import Restarts
from lockstep.running_gang import RunningGang


class GangTrigger(BaseTrigger):
    """Watches one attempt of a gang. Fires once: `{"uids": […]}`, or `{"failed": …}` with a `FailedAttempt`.

    Beside it the event holds `running` and `restarts` as they were given, for the task that goes on from there.
    """

    def __init__(self, running: dict[str, Any], restarts: dict[str, Any], conn_id: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.running, self.restarts, self.conn_id = running, restarts, conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {"running": self.running, "restarts": self.restarts, "conn_id": self.conn_id}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        try:
            running = self._gang()
            finish = await self._connected(running).supervise(running)
        except LockstepError as error:
            yield self._event(failed=to_json(FailedAttempt.of(error)))
        else:
            yield self._event(uids=list(finish.uids))

    async def on_kill(self) -> None:
        running = self._gang()
        await self._connected(running).kill(removal_of(running, running.timeouts.grace_s))
        self.log.info("The task was ended by a person; the pods of %s are being deleted", running.gang)

    def _event(self, **end: Any) -> TriggerEvent:
        return TriggerEvent({"running": self.running, "restarts": self.restarts, **end})

    def _gang(self) -> RunningGang:
        return parse(RunningGang, self.running, what="trigger")

    def _connected(self, running: RunningGang) -> ConnectedGang:
        return ConnectedGang(conn_id=self.conn_id, namespace=running.namespace)


def gang_trigger(running: RunningGang, restarts: Restarts, conn_id: str) -> GangTrigger:
    return GangTrigger(to_json(running), to_json(restarts), conn_id)
