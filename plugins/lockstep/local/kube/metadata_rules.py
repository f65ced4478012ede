"""What Kubernetes demands of names, labels, annotations and owner references, whatever the kind.

Each rule returns the field errors of a 422; none of them raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.local.kube.api_object import Json
from lockstep.local.kube.resource import SERVICES, Resource
from lockstep.local.kube.status_error import FieldError, invalid_value, required

_LABEL_1123 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL_1123}(\.{_LABEL_1123})*"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253
_LARGEST_ANNOTATIONS_BYTES = 256 * 1024

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_1123}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_QUALIFIED})?')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)


def metadata_errors(resource: Resource, item: Json) -> Iterator[FieldError]:
    """Yield what is wrong with an object's metadata."""
    metadata = item["metadata"]
    yield from _name_errors(resource, metadata)
    for key, value in metadata.get("labels", {}).items():
        yield from key_errors("metadata.labels", key)
        yield from label_value_errors("metadata.labels", value)
    for key in metadata.get("annotations", {}):
        yield from key_errors("metadata.annotations", key.lower())
    yield from _annotation_size_errors(metadata.get("annotations", {}))
    for index, owner in enumerate(metadata.get("ownerReferences", ())):
        yield from _owner_errors(f"metadata.ownerReferences[{index}]", owner)


def _name_errors(resource: Resource, metadata: Json) -> Iterator[FieldError]:
    if not metadata.get("name"):
        yield required("metadata.name", "name or generateName is required")
    elif resource is SERVICES:
        yield from _dns_errors("metadata.name", metadata["name"], _LABEL_1035, _LABEL_1035_TEXT, _LONGEST_LABEL)
    elif not resource.namespaced:
        yield from dns_label_errors("metadata.name", metadata["name"])
    else:
        yield from _dns_errors("metadata.name", metadata["name"], _SUBDOMAIN, _SUBDOMAIN_TEXT, _LONGEST_SUBDOMAIN)


def dns_label_errors(field: str, value: str) -> Iterator[FieldError]:
    yield from _dns_errors(field, value, _LABEL_1123, _LABEL_TEXT, _LONGEST_LABEL)


def _dns_errors(field: str, value: str, pattern: str, text: str, longest: int) -> Iterator[FieldError]:
    if len(value) > longest:
        yield invalid_value(field, value, f"must be no more than {longest} characters")
    if not re.fullmatch(pattern, value):
        yield invalid_value(field, value, text)


def key_errors(field: str, key: str) -> Iterator[FieldError]:
    """Yield what is wrong with a qualified name, the key of a label or an annotation."""
    prefix, slash, name = key.rpartition("/")
    if slash and not re.fullmatch(_SUBDOMAIN, prefix):
        yield invalid_value(field, key, f"prefix part {_SUBDOMAIN_TEXT}")
    if len(name) > _LONGEST_LABEL:
        yield invalid_value(field, key, f"name part must be no more than {_LONGEST_LABEL} characters")
    if not re.fullmatch(_QUALIFIED, name):
        yield invalid_value(field, key, _KEY_TEXT)


def label_value_errors(field: str, value: str) -> Iterator[FieldError]:
    if len(value) > _LONGEST_LABEL:
        yield invalid_value(field, value, f"must be no more than {_LONGEST_LABEL} characters")
    if not re.fullmatch(f"({_QUALIFIED})?", value):
        yield invalid_value(field, value, _VALUE_TEXT)


def _annotation_size_errors(annotations: dict[str, str]) -> Iterator[FieldError]:
    size_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size_bytes > _LARGEST_ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {_LARGEST_ANNOTATIONS_BYTES} bytes"
        yield FieldError(field="metadata.annotations", reason="FieldValueTooLong", message=message)


def _owner_errors(field: str, owner: Json) -> Iterator[FieldError]:
    for key in ("apiVersion", "kind", "name", "uid"):
        if not owner.get(key):
            yield invalid_value(f"{field}.{key}", owner.get(key, ""), f"{key} must not be empty")
