"""The images of `docker/`, built here with buildah on a base that debootstrap makes; no registry of images is asked.

The build machine's own pip configuration and certificates are bound into the build and are no part of any image.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.oci_layout import OciLayout
from tests.cluster.progress import step

PROJECT = Path(__file__).parents[2]
BASE_IMAGE = "localhost/lockstep/base:bookworm"
BASE_PACKAGES = ("ca-certificates", "python3", "python3-venv", "tzdata")
IMAGES = {"trainer": "localhost/lockstep/trainer:local", "airflow": "localhost/lockstep/airflow:local"}

# Folders and files of the build machine that pip needs to see where it sees them here.
REGISTRY_ACCESS = ("/etc/ssl/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/etc/pip.conf")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageStore:
    """buildah's storage under `folder`. Its mounts are made in a namespace of the command's own, and end with it."""

    folder: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One build at a time, also from several clones."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def run(self, *arguments: str, log: Path | None = None) -> str:
        """What buildah prints. Raises SystemExit with its last words."""
        options = ("--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"))
        command = ["unshare", "--mount", "--propagation", "private", "buildah", *options, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT)
        if log is not None:
            log.write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise SystemExit(f"buildah {arguments[0]} failed:\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout.strip()

    def image_id(self, name: str) -> str | None:
        return next((str(image["id"]) for image in self._images() if name in (image["names"] or ())), None)

    def size(self, name: str) -> str:
        """How large the image is, unpacked, in buildah's words: "485 MB"."""
        return next(str(image["size"]) for image in self._images() if name in (image["names"] or ()))

    def _images(self) -> list[dict[str, Any]]:
        return list(json.loads(self.run("images", "--no-trunc", "--json") or "[]"))


def build_images(store: ImageStore, logs: Path) -> dict[str, str]:
    """Build what is not up to date; returns image name -> image id."""
    if store.image_id(BASE_IMAGE) is None:
        with step("base image"):
            _build_base(store)
    built = {name: _build(store, short, name, logs) for short, name in IMAGES.items()}
    store.run("rmi", "--prune", "--force")  # builds that these replace
    return built


def export_image(store: ImageStore, name: str) -> OciLayout:
    """The image as a folder, uncompressed: its reader is on this machine. Blobs that are there already stay."""
    folder = store.folder / "layouts" / name.rpartition("/")[2].partition(":")[0]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.json").unlink(missing_ok=True)  # or the image would be added to those of earlier builds
    store.run("push", "--disable-compression", name, f"oci:{folder}:{name}")
    layout = OciLayout(folder=folder)
    layout.prune()
    return layout


def _build(store: ImageStore, short: str, name: str, logs: Path) -> str:
    dockerfile = f"docker/{short}.Dockerfile"
    with step(f"image {name}"):
        store.run(
            *("build", "--layers", "--pull-never", "--isolation", "chroot", "--build-arg", f"BASE={BASE_IMAGE}"),
            *(f"--volume={path}:{path}:ro" for path in REGISTRY_ACCESS if Path(path).exists()),
            *("--file", dockerfile, "--ignorefile", f"{dockerfile}.dockerignore", "--tag", name, "."),
            log=logs / f"image-{short}.log",
        )
    image_id = store.image_id(name)
    assert image_id is not None
    return image_id


def _build_base(store: ImageStore) -> None:
    rootfs = store.folder / "rootfs"
    shutil.rmtree(rootfs, ignore_errors=True)
    _checked(
        ["debootstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}", "bookworm", str(rootfs), _mirror()]
    )
    for leftover in ("var/cache/apt/archives", "var/lib/apt/lists", "var/log"):
        shutil.rmtree(rootfs / leftover)
        (rootfs / leftover).mkdir()
    context = store.folder / "context"
    context.mkdir(exist_ok=True)
    _checked(["tar", "--create", f"--file={context / 'base.tar'}", f"--directory={rootfs}", "."])
    store.run("build", "--file", "docker/base.Dockerfile", "--tag", BASE_IMAGE, str(context))
    shutil.rmtree(rootfs)
    shutil.rmtree(context)


def _mirror() -> str:
    """Where apt takes Debian's packages from."""
    rows = _checked(["apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"]).splitlines()
    sites = [site for release, site in (row.split(maxsplit=1) for row in rows) if release == "bookworm"]
    return sites[0] if sites else ""


def _checked(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
