"""What a Service must look like. Nothing is routed here: pods of one machine meet on loopback."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.metadata_rules import key_errors, label_value_errors
from lockstep.local.kube.status_error import FieldError, invalid_value, not_supported, required

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def with_service_defaults(service: Json, cluster_ip: str) -> Json:
    """Return the service as the API server stores it; `cluster_ip` is for one that names none."""
    given = copy.deepcopy(service.get("spec", {}))
    address = given.get("clusterIP") or cluster_ip
    spec = {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        **given,
        "clusterIP": address,
        "clusterIPs": [address],
    }
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if "port" in port:
            port.setdefault("targetPort", port["port"])
    return service | {"spec": spec, "status": {"loadBalancer": {}}}


def service_errors(service: Json) -> Iterator[FieldError]:
    """Yield what is wrong with a service's spec."""
    spec = service["spec"]
    if spec["type"] not in _TYPES:
        yield not_supported("spec.type", spec["type"], _TYPES)
    if not spec.get("ports") and spec["clusterIP"] != "None":
        yield required("spec.ports")
    for index, port in enumerate(spec.get("ports", ())):
        yield from _port_errors(f"spec.ports[{index}]", port, needs_name=len(spec["ports"]) > 1)
    for key, value in spec.get("selector", {}).items():
        yield from key_errors("spec.selector", key)
        yield from label_value_errors("spec.selector", value)


def _port_errors(field: str, port: Json, *, needs_name: bool) -> Iterator[FieldError]:
    if needs_name and not port.get("name"):
        yield required(f"{field}.name")
    if not 1 <= port.get("port", 0) <= 65535:
        yield invalid_value(f"{field}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")


def service_update_errors(before: Json, after: Json) -> Iterator[FieldError]:
    """Yield what an update changes that is fixed once a service exists."""
    if after["spec"].get("clusterIP") != before["spec"]["clusterIP"]:
        yield invalid_value("spec.clusterIPs[0]", after["spec"].get("clusterIP"), "may not change once set")
