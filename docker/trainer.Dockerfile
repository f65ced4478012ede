# The image of the training pods: TensorFlow and the trainer, without Airflow.
#
#     docker build -f docker/trainer.Dockerfile -t lockstep/trainer .
#
# BASE is any image with Python 3.11 and its venv module.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE}
COPY requirements.txt constraints.txt /tmp/build/
# Wheels only: an image that needs no compiler has none. pip leaves with its work done.
RUN sed -n '/^# \[trainer\]/,/^# \[one-machine\]/p' /tmp/build/requirements.txt > /tmp/build/group.txt \
 && python3 -m venv /opt/lockstep \
 && /opt/lockstep/bin/pip install --no-cache-dir --only-binary=:all: -r /tmp/build/group.txt -c /tmp/build/constraints.txt \
 && /opt/lockstep/bin/pip uninstall --yes pip \
 && rm -rf /tmp/build
COPY trainer /srv/lockstep/trainer
# Keras writes its configuration at home; the pod may have a read-only root file system with /tmp alone writable.
ENV PATH=/opt/lockstep/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/srv/lockstep \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    KERAS_HOME=/tmp/.keras
WORKDIR /srv/lockstep
USER 10001:10001
CMD ["python", "-m", "trainer"]
