"""The last message is short, says what happened, and never hides it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer.ending import report_failure
from trainer.errors import InvalidData
from trainer.pulse import Pulse
from trainer.termination import SIZE_LIMIT_BYTES, TerminationMessage, one_line

TENSORFLOW_SAYS = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main

  File "/app/trainer/gang.py", line 38, in sum

Collective ops is aborted by: Socket closed
\t [[{{node CollectiveReduceV2}}]] [Op:__inference_sum_347]"""


@pytest.mark.parametrize("letter", ["x", "é", "数", "\n", '"'])
def test_a_message_never_exceeds_what_kubernetes_keeps(letter: str) -> None:
    message = TerminationMessage(kind="user", message=letter * 5000, step=1, phase="step", traceback=letter * 50_000)
    encoded = message.encode()
    assert len(encoded) <= SIZE_LIMIT_BYTES
    assert json.loads(encoded)["kind"] == "user"


def test_the_end_of_a_traceback_is_kept() -> None:
    message = TerminationMessage(kind="user", message="m", traceback="begin" + "." * 9000 + "ValueError: end")
    assert json.loads(message.encode())["traceback"].endswith("ValueError: end")


def test_tensorflows_stack_is_left_out_of_the_one_line() -> None:
    assert one_line(RuntimeError(TENSORFLOW_SAYS)) == "RuntimeError: Collective ops is aborted by: Socket closed"


def test_an_orderly_error_tells_kind_step_and_phase(tmp_path: Path) -> None:
    pulse = Pulse()
    pulse.beat(812)
    with pytest.raises(InvalidData), pulse.during("input"):
        raise InvalidData("no files")
    log = tmp_path / "log"
    assert report_failure(InvalidData("no files"), 1, pulse, str(log)) == 65
    told = json.loads(log.read_bytes())
    assert told == {
        "schema": 1,
        "kind": "data",
        "message": "InvalidData: no files",
        "step": 812,
        "phase": "input",
        "traceback": "",
    }


def test_a_node_without_a_place_for_the_message_does_not_hide_the_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report_failure(ValueError("bad layer"), 1, Pulse(), str(tmp_path / "no" / "such" / "log")) == 1
    assert "ValueError: bad layer" in capsys.readouterr().err
