"""`python -m bench.creator <contender> <pods>`: the Airflow worker's part, before and after its tasks are deferred.

`launch` answers with the triggers that it leaves to the triggerer, `finish` takes their events.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
import traceback
from typing import Any

from airflow.providers.cncf.kubernetes.operators import job, pod  # noqa: F401 - imported whoever contends
from airflow.sdk.serde import deserialize, serialize

from bench.contender import Contender, Work
from bench.json_lines import orders, say, take_stdout


async def main() -> None:
    answers = take_stdout()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    logging.getLogger("kubernetes.client.rest").setLevel(logging.INFO)
    contender: Contender = importlib.import_module(f"bench.contenders.{sys.argv[1]}").Contender()
    say(answers, ready=True)
    async for order in orders():
        began = time.time()
        try:
            answer = await asyncio.to_thread(_obey, contender, order)
        except Exception as failure:
            traceback.print_exc()
            answer = {"failed": f"{type(failure).__name__}: {failure}"}
        say(answers, began=began, ended=time.time(), **answer)


def _obey(contender: Contender, order: dict[str, Any]) -> dict[str, Any]:
    if "finish" in order:
        contender.finish([deserialize(event) for event in order["finish"]])
        return {}
    triggers = [trigger.serialize() for work in order["launch"] for trigger in contender.launch(Work(**work))]
    return {"triggers": [(path, serialize(arguments)) for path, arguments in triggers]}


if __name__ == "__main__":
    asyncio.run(main())
