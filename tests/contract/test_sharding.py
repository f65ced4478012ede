"""How the files are divided is said before a pod exists, and applied in the pods: by the same rule."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from lockstep import sharding as announced
from lockstep.stored_object import StoredObject
from trainer import sharding as applied


@given(sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=12), workers=st.integers(1, 6))
@example(sizes=[100, 105], workers=2)
@example(sizes=[100, 106], workers=2)
def test_what_auto_is_said_to_choose_is_what_it_chooses(sizes: list[int], workers: int) -> None:
    files = [StoredObject(path=f"{index:03}", size_bytes=size, crc32c="") for index, size in enumerate(sizes)]
    said = announced.plan_sharding(files, workers=workers, policy="auto", source="gs://b/*")
    assert applied.plan_sharding("auto", len(sizes), workers, lambda: sizes).policy == said.policy
