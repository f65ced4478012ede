"""The few things done to files, on gs:// and on local disks alike, all through TensorFlow's own filesystem.

Nothing here creates directory markers in a bucket: a listing shows exactly the files that were written.
"""

from __future__ import annotations

import json
from typing import Any

import tensorflow as tf

gfile = tf.io.gfile


def join(directory: str, *parts: str) -> str:
    return "/".join([directory.rstrip("/"), *parts])


def is_remote(path: str) -> bool:
    return "://" in path


def read_bytes(path: str) -> bytes | None:
    """The content, or None when there is no such file."""
    try:
        with gfile.GFile(path, "rb") as file:
            return bytes(file.read())
    except tf.errors.NotFoundError:
        return None


def read_json(path: str) -> Any:
    """The parsed content, or None when there is no such file or it is not JSON."""
    try:
        return json.loads(read_bytes(path) or b"null")
    except ValueError:
        return None


def write_bytes(path: str, content: bytes) -> None:
    """Write a small file whole: a reader sees the old content or the new one."""
    written = path if is_remote(path) else f"{path}.partial"
    make_parent(written)
    with gfile.GFile(written, "wb") as file:
        file.write(content)
    if written != path:
        gfile.rename(written, path, overwrite=True)


def write_json(path: str, content: Any) -> None:
    write_bytes(path, encode_json(content))


def encode_json(content: Any) -> bytes:
    """The one form in which JSON is written: sorted keys, indented, so that equal content has equal bytes."""
    return (json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n").encode()


def size_bytes(path: str) -> int | None:
    """The size, or None when there is no such file."""
    try:
        return int(gfile.stat(path).length)
    except tf.errors.NotFoundError:
        return None


def names_in(directory: str) -> tuple[str, ...]:
    """What is directly inside, sorted; empty when there is nothing."""
    try:
        return tuple(sorted(name.rstrip("/") for name in gfile.listdir(directory) if name.rstrip("/")))
    except tf.errors.NotFoundError:
        return ()


def remove(path: str) -> None:
    """Remove a file; it may be gone already."""
    try:
        gfile.remove(path)
    except tf.errors.NotFoundError:
        return


def remove_tree(directory: str) -> None:
    """Remove a directory and all that is in it; it may be gone already."""
    try:
        gfile.rmtree(directory)
    except tf.errors.NotFoundError:
        return


def make_parent(path: str) -> None:
    """Buckets have no directories; a local disk does."""
    if not is_remote(path):
        gfile.makedirs(path.rpartition("/")[0])
