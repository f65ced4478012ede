"""Questions that tell whether a service is ready. One question each; how often to ask is the caller's business."""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
import yaml

_TIMEOUT_S = 5.0


class Probe(Protocol):
    def objection(self, started_at: float) -> str | None:
        """Return why the service started at `started_at` (Unix time) is not ready yet, or None if it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpProbe:
    """Ready when the URL answers 200."""

    url: str

    def objection(self, started_at: float) -> str | None:
        return objection_to(self.url)


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewayProbe:
    """Ready when the proxy refuses what is not for it, with 403."""

    url: str

    def objection(self, started_at: float) -> str | None:
        return objection_to(self.url, expected_status=403)


@dataclass(frozen=True, kw_only=True, slots=True)
class KubernetesProbe:
    """Ready when the API server answers `/version` to the kubeconfig's own token and certificate."""

    kubeconfig: Path

    def objection(self, started_at: float) -> str | None:
        if not self.kubeconfig.exists():
            return f"{self.kubeconfig} has not been written"
        config = yaml.safe_load(self.kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        trust = ssl.create_default_context(cadata=authority_of(cluster))
        return objection_to(f"{cluster['server']}/version", verify=trust, token=user["token"])


@dataclass(frozen=True, kw_only=True, slots=True)
class AirflowProbe:
    """Ready when Airflow's API server reports a heartbeat of the component that is younger than the process."""

    api_url: str
    component: str

    def objection(self, started_at: float) -> str | None:
        try:
            health = httpx.get(f"{self.api_url}/api/v2/monitor/health", timeout=_TIMEOUT_S, trust_env=False).json()
        except (httpx.HTTPError, ValueError) as error:
            return f"no health report from the API server: {error}"
        return objection_to_health(health.get(self.component) or {}, self.component, started_at)


def objection_to_health(health: dict[str, Any], component: str, started_at: float) -> str | None:
    """Judge one component's part of Airflow's health report."""
    heartbeat = health.get(f"latest_{component}_heartbeat")
    if health.get("status") != "healthy" or heartbeat is None:
        return f"Airflow calls it {health.get('status') or 'unknown'}"
    if datetime.fromisoformat(heartbeat.replace("Z", "+00:00")).timestamp() < started_at:
        return "no heartbeat since it was started"
    return None


def objection_to(
    url: str, *, expected_status: int = 200, verify: ssl.SSLContext | bool = True, token: str | None = None
) -> str | None:
    """Return why the URL's answer is not the expected one, or None if it is."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        # Proxies of the user's environment never lead to loopback.
        answer = httpx.get(url, headers=headers, verify=verify, timeout=_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        return f"{url}: {error}"
    return None if answer.status_code == expected_status else f"{url}: status {answer.status_code}"


def authority_of(cluster: dict[str, Any]) -> str:
    """Return the certificate authority of a kubeconfig's cluster, as PEM."""
    if "certificate-authority-data" in cluster:
        return base64.b64decode(cluster["certificate-authority-data"]).decode()
    return Path(cluster["certificate-authority"]).read_text()
