"""What is in the two images, and what is not, seen from a pod of each."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import look
from tests.cluster.gangs import Gangs
from tests.cluster.image_build import IMAGES

pytestmark = pytest.mark.skipif(look().layout is None, reason="the images are built for a node brought up here")

WITHOUT_TOOLS = """
import os, shutil
assert os.getuid() != 0
tools = ("cc", "gcc", "g++", "make", "cmake", "git", "go", "rustc", "pip", "pip3")
found = [tool for tool in tools if shutil.which(tool)]
assert not found, found
"""
ABSENT = """
from importlib.util import find_spec
found = [name for name in {names} if find_spec(name)]
assert not found, found
"""
SERVES_THE_CHART = """
import subprocess
import asyncpg, psycopg2
from airflow.utils.platform import getuser
assert getuser() == "airflow"
assert subprocess.check_output(["/entrypoint", "airflow", "version"], text=True).strip().endswith("3.3.2")
"""
DAGS_LOAD = """
from airflow.dag_processing.dagbag import DagBag
bag = DagBag("/opt/airflow/dags")
assert not bag.import_errors, bag.import_errors
assert "train_digits" in bag.dags
from airflow.plugins_manager import get_plugin_info
assert "lockstep" in [plugin["name"] for plugin in get_plugin_info()]
"""


async def test_the_trainers_image_has_tensorflow_and_no_airflow(real_gangs: Gangs) -> None:
    absent = ABSENT.format(names=("airflow", "lockstep", "kubernetes", "mlflow"))
    code = f"{WITHOUT_TOOLS}{absent}import tensorflow, trainer; assert tensorflow.__version__"
    await real_gangs.run(real_gangs.plan(code, workers=1, resources={"cpu": "500m", "memory": "2Gi"}))


async def test_airflows_image_loads_the_dags_serves_the_chart_and_has_no_tensorflow(real_gangs: Gangs) -> None:
    code = f"{WITHOUT_TOOLS}{ABSENT.format(names=('tensorflow', 'keras', 'trainer'))}{SERVES_THE_CHART}{DAGS_LOAD}"
    plan = real_gangs.plan(code, workers=1, image=IMAGES["airflow"], resources={"cpu": "500m", "memory": "2Gi"})
    await real_gangs.run(plan)
