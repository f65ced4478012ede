"""Clock over the system's time."""

from __future__ import annotations

import time


class SystemClock:
    """See `lockstep.cluster.Clock`."""

    def now(self) -> float:
        return time.time()
