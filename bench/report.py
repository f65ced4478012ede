"""The figures as a table in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.figures import Figures, RunFigures

NAMES = {
    "gang": "Lockstep",
    "pod_operators": "N KubernetesPodOperators",
    "job_operator": "KubernetesJobOperator",
}
COLUMNS = (
    ("pods", "---:"),
    ("", "---"),
    ("requests: start, run, finish", "---:"),
    ("requests/s while running", "---:"),
    ("read", "---:"),
    ("CPU seconds in all", "---:"),
    ("cores while running", "---:"),
    ("memory over idle", "---:"),
    ("failure noticed: median, worst", "---:"),
    ("all created", "---:"),
)


def table(figures: Sequence[Figures]) -> str:
    order = list(NAMES)
    lines = [[name for name, _ in COLUMNS], [line for _, line in COLUMNS]]
    lines += [_row(each) for each in sorted(figures, key=lambda each: (each.pods, order.index(each.contender)))]
    noted = [f"\n{each.pods} pods, {NAMES[each.contender]}: {each.given_up}." for each in figures if each.given_up]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n" + "".join(f"{note}\n" for note in noted)


def _row(figures: Figures) -> list[str]:
    ran = _ran(figures.run) if figures.run else ["—"] * 7
    return [f"{figures.pods:,}", NAMES[figures.contender], *ran[:-1], _noticed(figures.notices_s), ran[-1]]


def _ran(run: RunFigures) -> list[str]:
    return [
        f"{run.start_requests:,} + {run.run_requests:,} + {run.finish_requests:,} = {run.requests:,}",
        f"{run.run_requests / run.ran_s:.2f}",
        f"{run.bytes_read / 1e6:,.1f} MB",
        f"{run.watching_cpu_s:.1f} s",
        f"{run.run_cpu_s / run.ran_s:.3f}",
        f"{run.memory_bytes / 1e6:,.0f} MB",
        f"{run.created_s:.1f} s",
    ]


def _noticed(notices_s: Sequence[float]) -> str:
    if not notices_s:
        return "—"
    return f"{statistics.median(notices_s):.2f} s, {max(notices_s):.2f} s (of {len(notices_s)})"
