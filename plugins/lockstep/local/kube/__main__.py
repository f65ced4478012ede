"""`python -m lockstep.local.kube`: run the one-machine Kubernetes API until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from lockstep.local.kube.api_server import StateInUse, serve
from lockstep.local.kube.image import InvalidImages


def main() -> int:
    """Return 0 when the server was told to end, 1 when it could not begin."""
    arguments = _parser().parse_args()
    try:
        asyncio.run(serve(arguments.state, arguments.images, arguments.kubeconfig, arguments.port))
    except (StateInUse, InvalidImages, OSError) as error:
        print(f"lockstep.local.kube: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lockstep.local.kube", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder for objects, logs, token and certificates")
    parser.add_argument("--images", type=Path, required=True, help="JSON file: which Python environment is which image")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="file to write once the server answers")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 for any free one (default)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
