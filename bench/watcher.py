"""`python -m bench.watcher`: a triggerer with nothing around it. Runs the triggers that it is given in one event loop.

Whoever contends, the same modules are imported before it says that it is idle.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from typing import Any, TextIO

from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.sdk.serde import deserialize, serialize
from airflow.triggers.base import BaseTrigger

from bench.json_lines import orders, say, take_stdout
from lockstep.triggers.gang import GangTrigger

TRIGGERS: dict[str, type[BaseTrigger]] = {
    f"{each.__module__}.{each.__qualname__}": each for each in (GangTrigger, KubernetesPodTrigger, KubernetesJobTrigger)
}


async def watch(answers: TextIO) -> None:
    async with asyncio.TaskGroup() as running:
        async for order in orders():
            for index, (path, arguments) in enumerate(order["watch"]):
                running.create_task(_run(index, _trigger(path, arguments), answers))


def _trigger(path: str, serialized: Any) -> BaseTrigger:
    arguments: Any = deserialize(serialized)
    return TRIGGERS[path](**arguments)


async def _run(index: int, trigger: BaseTrigger, answers: TextIO) -> None:
    """As a triggerer runs it: until its first event."""
    async for event in trigger.run():
        say(answers, index=index, at=time.time(), event=serialize(event.payload))
        return


def main() -> None:
    answers = take_stdout()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    gc.collect()
    say(answers, idle=True)
    asyncio.run(watch(answers))


if __name__ == "__main__":
    main()
