"""Refusals in Kubernetes' own form: a `Status` object with reason, code and, for a 422, one cause per field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from lockstep.local.kube.api_object import Json


class StatusError(Exception):
    """A request that is refused; carries the `Status` that the client gets."""

    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def status(self) -> Json:
        body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason, "code": self.code}
        if self.details is not None:
            body["details"] = self.details
        return body


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldError:
    """One cause of a 422: which field, why (a Kubernetes cause type), and the text that says so."""

    field: str
    reason: str
    message: str

    @property
    def cause(self) -> Json:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    message = f"Required value: {detail}" if detail else "Required value"
    return FieldError(field=field, reason="FieldValueRequired", message=message)


def invalid_value(field: str, value: object, detail: str) -> FieldError:
    return FieldError(field=field, reason="FieldValueInvalid", message=f"Invalid value: {json.dumps(value)}: {detail}")


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    listed = ", ".join(json.dumps(each) for each in supported)
    message = f"Unsupported value: {json.dumps(value)}: supported values: {listed}"
    return FieldError(field=field, reason="FieldValueNotSupported", message=message)


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError(field=field, reason="FieldValueForbidden", message=f"Forbidden: {detail}")


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(plural: str, name: str, why: str) -> StatusError:
    return StatusError(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}', {"name": name, "kind": plural})


def not_found(plural: str, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{plural} "{name}" not found', {"name": name, "kind": plural})


def no_such_resource() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def already_exists(plural: str, name: str) -> StatusError:
    details = {"name": name, "kind": plural}
    return StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists', details)


def conflict(plural: str, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return StatusError(409, "Conflict", message, {"name": name, "kind": plural})


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """Return the 422 that lists every field that is wrong."""
    texts = [f"{error.field}: {error.message}" for error in errors]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {"name": name, "kind": kind, "causes": [error.cause for error in errors]}
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {listed}', details)
