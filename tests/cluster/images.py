"""The images of `docker/` on the cluster's node: built where sources changed, brought in where the node lacks them."""

from __future__ import annotations

from tests.cluster.cluster import up
from tests.cluster.container_runtime import blobs, image_names, import_image, name_image
from tests.cluster.debian_packages import install_missing_packages
from tests.cluster.image_build import ImageStore, build_images, export_image
from tests.cluster.layout import ClusterLayout
from tests.cluster.programs import cache_folder
from tests.cluster.progress import say, step


def provide_images() -> None:
    """Bring the cluster up if need be, and both images onto its node."""
    layout = up()
    install_missing_packages(layout.state / "apt.log")
    store = ImageStore(folder=cache_folder() / "buildah")
    with store.locked():
        for name, image_id in build_images(store, layout.folder("logs")).items():
            _provide(layout, store, name, image_id)
            say(f"{name}: {store.size(name)}")


def _provide(layout: ClusterLayout, store: ImageStore, name: str, image_id: str) -> None:
    """A second name tells which build it is, so that the node itself remembers what it has."""
    by_build = f"{name.rpartition(':')[0]}:{image_id.removeprefix('sha256:')[:12]}"
    if by_build in image_names(layout):
        return
    archive = store.folder / "image.tar"
    with step(f"bringing {name} onto the node"):
        export_image(store, name).write_archive(archive, name=name, without=blobs(layout))
        import_image(layout, archive)
        name_image(layout, name, by_build)
        archive.unlink()
