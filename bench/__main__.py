"""`python -m bench` (`make bench-gang`): measure, and print the table. `--help` tells what can be chosen."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.api import Refused
from bench.arena import GivenUp
from bench.failures import measure_failures
from bench.figures import Figures, read_figures, write_figures
from bench.measured_process import Ended
from bench.report import NAMES, table
from bench.target import Target, target
from bench.whole_run import measure_run


def main() -> int:
    asked = _parser().parse_args()
    file = asked.figures or Path(tempfile.mkdtemp(prefix="lockstep-bench-")) / "figures.jsonl"
    if not asked.only_print:
        asyncio.run(_measure_all(asked, file))
    print(table(read_figures(file)))
    return 0


async def _measure_all(asked: argparse.Namespace, file: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        async with target(Path(folder), local=asked.local, pods=2 * max(*asked.sizes, asked.most_pods)) as place:
            for pods in asked.sizes:
                for contender in asked.contenders:
                    async for figures in _measured(place, contender, pods, asked):
                        write_figures(file, figures)
                        print(f"{NAMES[contender]}, {pods} pods: {figures.given_up or 'done'}", file=sys.stderr)


async def _measured(place: Target, contender: str, pods: int, asked: argparse.Namespace) -> AsyncIterator[Figures]:
    """The run, and then the failures, for a contender that can do the run."""
    figures = Figures(target=place.name, contender=contender, pods=pods)
    if asked.seconds:
        run, why = await _or_why(lambda: measure_run(place, contender, pods, asked.seconds))
        yield replace(figures, run=run, given_up=why)
        if why:
            return
    if asked.failures:
        most = asked.most_pods
        notices_s, why = await _or_why(lambda: measure_failures(place, contender, pods, asked.failures, most))
        yield replace(figures, notices_s=tuple(notices_s or ()), given_up=why)


async def _or_why(measure: Callable[[], Awaitable[Any]]) -> tuple[Any, str]:
    """What was measured, or why it was not."""
    try:
        return await measure(), ""
    except (GivenUp, Ended, Refused, TimeoutError) as failure:
        return None, " ".join(str(failure).split()) or type(failure).__name__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What it costs to watch N pods.")
    parser.add_argument("--sizes", type=_numbers, default=[8, 64], help="how many pods, e.g. 8,64,256,1000 (8,64)")
    parser.add_argument("--contenders", type=_names, default=list(NAMES), help=f"some of {','.join(NAMES)} (all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the pods run; 0 for failures only (60)")
    parser.add_argument("--failures", type=int, default=20, help="how many failures to time; 0 for none (20)")
    parser.add_argument("--most-pods", type=int, default=1280, help="how many pods may run for that at once (1280)")
    parser.add_argument("--figures", type=Path, help="file to add the figures to; the table shows all that is in it")
    parser.add_argument("--only-print", action="store_true", help="measure nothing, print the table of --figures")
    parser.add_argument("--local", action="store_true", help="on the one-machine API, whose pods are processes")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _names(text: str) -> list[str]:
    if unknown := set(names := text.split(",")) - set(NAMES):
        raise argparse.ArgumentTypeError(f"no contender is called {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    sys.exit(main())
