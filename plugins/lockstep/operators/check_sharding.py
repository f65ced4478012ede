"""Says, before a pod exists, how the training files will be divided among the workers, and refuses what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator

from lockstep.airflow_errors import told_to_airflow
from lockstep.data_files import divide_files
from lockstep.parsing import STRICT_KEYS, parse
from lockstep.training_spec import Count

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import ConfigDict


class CheckShardingOperator(BaseOperator):
    """Lists the files and applies the rule that the trainer will apply.

    :param train_data: glob of the TFRecord files, gs://bucket/folder/train-*.tfrecord.
    :param workers: how many will share them.
    :param sharding: "auto", "file" or "data".
    :param eval_data: glob of the files to evaluate on; checked for being there.

    Returns the report: `policy`, `files`, `workers`, `reason` and the shares. Refusals fail the task without a retry.
    """

    template_fields: Sequence[str] = ("train_data", "workers", "sharding", "eval_data")
    ui_color = "#d8e8f7"

    def __init__(
        self,
        *,
        train_data: str,
        workers: int | str,
        sharding: str = "auto",
        eval_data: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.train_data = train_data
        self.workers = workers
        self.sharding = sharding
        self.eval_data = eval_data

    def execute(self, context: Context) -> dict[str, Any]:
        with told_to_airflow():
            asked = parse(_Question, {name: getattr(self, name) for name in self.template_fields}, what=self.task_id)
            report = divide_files(asked.train_data, asked.eval_data, workers=asked.workers, policy=asked.sharding)
        self.log.info("Sharding: %s", report.reason)
        return report.to_xcom()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Question:
    """The operator's arguments, rendered."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_KEYS

    train_data: str
    workers: Count
    sharding: Literal["auto", "file", "data"]
    eval_data: str | None = None
