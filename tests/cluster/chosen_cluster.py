"""Which cluster is meant: the one that $KUBECONFIG leads to, or the node that is brought up here."""

from __future__ import annotations

import os

from tests.cluster.cluster import STATE


def kubeconfig_elsewhere() -> str | None:
    """What $KUBECONFIG says, unless it leads to the node here or says nothing."""
    named = os.environ.get("KUBECONFIG")
    return named if named and os.path.realpath(named) != str((STATE / "kubeconfig").resolve()) else None
