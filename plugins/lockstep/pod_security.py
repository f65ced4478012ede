"""What the pods here renounce unless they are told otherwise: all that pod security `restricted` asks for.

https://kubernetes.io/docs/concepts/security/pod-security-standards/ has the list. The keys are arguments of
KubernetesPodOperator, so that a DAG can give them to a pod task of its own: `KubernetesPodOperator(…, **RESTRICTED)`.
"""

from __future__ import annotations

from typing import Any

RESTRICTED: dict[str, Any] = {
    "security_context": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "container_security_context": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
