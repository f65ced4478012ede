"""Kubernetes' own programs, built unchanged from their Go modules into the user's cache folder, once per version.

What a build depends on (module files, sources of ours, flags) is in its folder's name, so a newer clone builds anew
and an older one finds what it had. Beside the programs stand the manifests that their modules publish.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.go_toolchain import go_program
from tests.cluster.progress import step

MODULES = Path(__file__).parent / "modules"
KUBERNETES_VERSION = "v1.37.2"
_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True, kw_only=True, slots=True)
class GoModule:
    """One folder under `modules/`: the programs it builds (name -> import path), and manifests to copy beside them."""

    name: str
    programs: Mapping[str, str]
    link_flags: str = "-s -w"
    manifests: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (module path, folder in it)


GO_MODULES = (
    GoModule(
        name="kubernetes",
        programs={
            "etcd": "go.etcd.io/etcd/server/v3",
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kubelet": "k8s.io/kubernetes/cmd/kubelet",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        },
        # Unstamped, the server calls itself v0.0.0-master+$Format, which other controllers cannot parse.
        link_flags=f"-s -w -X {_STAMP}.gitVersion={KUBERNETES_VERSION} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor=37",
    ),
    GoModule(name="coredns", programs={"coredns": "github.com/coredns/coredns"}),
    GoModule(
        name="kueue",
        programs={"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
        manifests={
            "crd": ("sigs.k8s.io/kueue", "config/components/crd/bases"),
            "webhook": ("sigs.k8s.io/kueue", "config/components/webhook"),
        },
    ),
    GoModule(
        name="training-operator",
        programs={"training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"},
        manifests={"crd": ("github.com/kubeflow/training-operator", "manifests/base/crds")},
    ),
    GoModule(
        name="kwok",
        programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        manifests={
            "crd": ("sigs.k8s.io/kwok", "kustomize/crd/bases"),
            "stage-pod": ("sigs.k8s.io/kwok", "kustomize/stage/pod/fast"),
            "stage-node": ("sigs.k8s.io/kwok", "kustomize/stage/node/fast"),
            "stage-heartbeat": ("sigs.k8s.io/kwok", "kustomize/stage/node/heartbeat-with-lease"),
        },
    ),
    GoModule(name="kube-router", programs={"kube-router": "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"}),
    GoModule(name="pause", programs={"pause": "."}),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Programs:
    """Where the built programs and manifests are."""

    cache: Path

    def program(self, name: str) -> str:
        module = next(module for module in GO_MODULES if name in module.programs)
        return str(_module_folder(self.cache, module) / "bin" / name)

    def manifests(self, module_name: str, name: str) -> Path:
        module = next(module for module in GO_MODULES if module.name == module_name)
        return _module_folder(self.cache, module) / "manifests" / name


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep" / "cluster"


def build_programs(cache: Path) -> Programs:
    """Build what the cache lacks; a few minutes per module when nothing is there."""
    for module in GO_MODULES:
        if not (folder := _module_folder(cache, module)).exists():
            _build(module, folder, go_program(cache))
    return Programs(cache=cache)


def _module_folder(cache: Path, module: GoModule) -> Path:
    digest = hashlib.sha256(
        repr((sorted(module.programs.items()), module.link_flags, sorted(module.manifests.items()))).encode()
    )
    for file in sorted((MODULES / module.name).iterdir()):
        digest.update(file.read_bytes())
    return cache / f"{module.name}-{digest.hexdigest()[:12]}"


def _build(module: GoModule, folder: Path, go: str) -> None:
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    for program, package in module.programs.items():
        with step(f"building {program}"):
            _go_build(go, module, package, unfinished / "bin" / program)
    for name, (module_path, inside) in module.manifests.items():
        _copy_manifests(_module_source(go, module, module_path) / inside, unfinished / "manifests" / name)
    unfinished.rename(folder)


def _go_build(go: str, module: GoModule, package: str, output: Path) -> None:
    done = _go(go, module, "build", "-trimpath", "-ldflags", module.link_flags, "-o", str(output), package)
    if done.returncode != 0:
        raise SystemExit(f"go build {package} failed in {MODULES / module.name}:\n{done.stderr[-4000:]}")


def _module_source(go: str, module: GoModule, module_path: str) -> Path:
    done = _go(go, module, "list", "-m", "-f", "{{.Dir}}", module_path)
    return Path(done.stdout.strip())


def _go(go: str, module: GoModule, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    # Hours of another's patience are cheaper than minutes of a machine that no longer answers.
    command = ["nice", "-n", "19", go, *arguments]
    return subprocess.run(command, cwd=MODULES / module.name, env=environment, capture_output=True, text=True)


def _copy_manifests(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for file in sorted(source.glob("*.yaml")):
        if not file.name.startswith("kustomiz"):  # kubectl would take it for an object
            (target / file.name).write_bytes(file.read_bytes())
