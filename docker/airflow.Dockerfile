# Airflow with the Lockstep plugin and its DAGs, without TensorFlow; made for Airflow's official Helm chart.
#
#     docker build -f docker/airflow.Dockerfile -t lockstep/airflow .
#
# BASE is any image with Python 3.11 and its venv module.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE}
COPY requirements.txt constraints.txt /tmp/build/
# Wheels only: an image that needs no compiler has none. pip leaves with its work done.
RUN sed -n '/^# \[airflow\]/,/^# \[trainer\]/p' /tmp/build/requirements.txt > /tmp/build/group.txt \
 && python3 -m venv /opt/lockstep \
 && /opt/lockstep/bin/pip install --no-cache-dir --only-binary=:all: -r /tmp/build/group.txt -c /tmp/build/constraints.txt \
 && /opt/lockstep/bin/pip uninstall --yes pip \
 && rm -rf /tmp/build
# The chart's probes call Airflow through the official image's entry point.
RUN printf '#!/bin/sh\nexec "$@"\n' > /entrypoint && chmod 755 /entrypoint
# 50000:0 and /opt/airflow are what the Helm chart runs as and mounts at; group 0 may write there, as it may need to.
RUN mkdir -p /opt/airflow/logs && chown -R 50000:0 /opt/airflow && chmod -R g=u /opt/airflow
COPY --chown=50000:0 plugins /opt/airflow/plugins
COPY --chown=50000:0 dags /opt/airflow/dags
ENV PATH=/opt/lockstep/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/airflow/plugins \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LOGNAME=airflow \
    HOME=/opt/airflow \
    AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__LOAD_EXAMPLES=false
WORKDIR /opt/airflow
USER 50000:0
CMD ["airflow", "standalone"]
