"""What each exit status tells whoever supervises the gang. The codes are part of the contract, version 1."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
USER_CODE: Final = 1
REQUEST: Final = 64
DATA: Final = 65
PEER_LOST: Final = 69
STALLED: Final = 75  # or storage did not answer
STOPPED: Final = 143
