"""The pause before a restart, without a worker slot. What the task has to know after it travels along.

Airflow's own time triggers tell the task nothing but the time, and `dag.test()` drops the arguments of a deferral.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from lockstep.system_clock import SystemClock


class PauseTrigger(BaseTrigger):
    """Fires `payload` at `moment`, seconds since the epoch; at once where that has passed."""

    def __init__(self, moment: float, payload: dict[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moment, self.payload = moment, payload

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {"moment": self.moment, "payload": self.payload}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(max(0.0, self.moment - SystemClock().now()))
        yield TriggerEvent(self.payload)
