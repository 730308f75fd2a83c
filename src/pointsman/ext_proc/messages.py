"""The protobuf messages of Envoy's external processing filter, as far as they are used.

Names and numbers are those of Envoy's file for ``envoy.service.ext_proc.v3``, and of those it imports. They
are declared here, in a separate descriptor pool, because the published package of them overwrites
files of another (docs/notebook/0192). Fields that are not declared are skipped when a message is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["BODY_MODES", "FIELDS", "OVERWRITE", "SERVICE", "ProcessingRequest", "ProcessingResponse"]

SERVICE: Final = "envoy.service.ext_proc.v3.ExternalProcessor"

_EXT_PROC: Final = "envoy.service.ext_proc.v3."
_CORE: Final = "envoy.config.core.v3."
_TYPE: Final = "envoy.type.v3."

#: How Envoy sends bodies, by number (``ProcessingMode.BodySendMode``).
BODY_MODES: Final = ("none", "streamed", "buffered", "buffered partial", "full duplex streamed", "grpc")
#: ``HeaderValueOption.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD``.
OVERWRITE: Final = 2


class _Field(NamedTuple):
    number: int
    kind: str  # "string", "bytes", "bool", "enum", or the full name of a message
    repeated: bool = False
    oneof: str = ""


#: By full name of the message. An enum is declared as a number: the wire is the same.
FIELDS: Final[Mapping[str, Mapping[str, _Field]]] = {
    _CORE + "HeaderValue": {
        "key": _Field(1, "string"),
        "value": _Field(2, "string"),
        "raw_value": _Field(3, "bytes"),
    },
    _CORE + "HeaderMap": {"headers": _Field(1, _CORE + "HeaderValue", repeated=True)},
    _CORE + "HeaderValueOption": {
        "header": _Field(1, _CORE + "HeaderValue"),
        "append_action": _Field(3, "enum"),
    },
    _TYPE + "HttpStatus": {"code": _Field(1, "enum")},
    _EXT_PROC + "ProtocolConfiguration": {
        "request_body_mode": _Field(1, "enum"),
        "response_body_mode": _Field(2, "enum"),
    },
    _EXT_PROC + "HttpHeaders": {
        "headers": _Field(1, _CORE + "HeaderMap"),
        "end_of_stream": _Field(3, "bool"),
    },
    _EXT_PROC + "HttpBody": {"body": _Field(1, "bytes"), "end_of_stream": _Field(2, "bool")},
    _EXT_PROC + "HttpTrailers": {"trailers": _Field(1, _CORE + "HeaderMap")},
    _EXT_PROC + "ProcessingRequest": {
        "request_headers": _Field(2, _EXT_PROC + "HttpHeaders", oneof="request"),
        "response_headers": _Field(3, _EXT_PROC + "HttpHeaders", oneof="request"),
        "request_body": _Field(4, _EXT_PROC + "HttpBody", oneof="request"),
        "response_body": _Field(5, _EXT_PROC + "HttpBody", oneof="request"),
        "request_trailers": _Field(6, _EXT_PROC + "HttpTrailers", oneof="request"),
        "response_trailers": _Field(7, _EXT_PROC + "HttpTrailers", oneof="request"),
        "protocol_config": _Field(11, _EXT_PROC + "ProtocolConfiguration"),
    },
    _EXT_PROC + "HeaderMutation": {
        "set_headers": _Field(1, _CORE + "HeaderValueOption", repeated=True),
        "remove_headers": _Field(2, "string", repeated=True),
    },
    _EXT_PROC + "StreamedBodyResponse": {"body": _Field(1, "bytes"), "end_of_stream": _Field(2, "bool")},
    _EXT_PROC + "BodyMutation": {
        "body": _Field(1, "bytes", oneof="mutation"),
        "streamed_response": _Field(3, _EXT_PROC + "StreamedBodyResponse", oneof="mutation"),
    },
    _EXT_PROC + "CommonResponse": {
        "status": _Field(1, "enum"),
        "header_mutation": _Field(2, _EXT_PROC + "HeaderMutation"),
        "body_mutation": _Field(3, _EXT_PROC + "BodyMutation"),
        "clear_route_cache": _Field(5, "bool"),
    },
    _EXT_PROC + "HeadersResponse": {"response": _Field(1, _EXT_PROC + "CommonResponse")},
    _EXT_PROC + "BodyResponse": {"response": _Field(1, _EXT_PROC + "CommonResponse")},
    _EXT_PROC + "TrailersResponse": {"header_mutation": _Field(1, _EXT_PROC + "HeaderMutation")},
    _EXT_PROC + "ImmediateResponse": {
        "status": _Field(1, _TYPE + "HttpStatus"),
        "headers": _Field(2, _EXT_PROC + "HeaderMutation"),
        "body": _Field(3, "bytes"),
        "details": _Field(5, "string"),
    },
    _EXT_PROC + "ProcessingResponse": {
        "request_headers": _Field(1, _EXT_PROC + "HeadersResponse", oneof="response"),
        "response_headers": _Field(2, _EXT_PROC + "HeadersResponse", oneof="response"),
        "request_body": _Field(3, _EXT_PROC + "BodyResponse", oneof="response"),
        "response_body": _Field(4, _EXT_PROC + "BodyResponse", oneof="response"),
        "request_trailers": _Field(5, _EXT_PROC + "TrailersResponse", oneof="response"),
        "response_trailers": _Field(6, _EXT_PROC + "TrailersResponse", oneof="response"),
        "immediate_response": _Field(7, _EXT_PROC + "ImmediateResponse", oneof="response"),
    },
}

_Proto = descriptor_pb2.FieldDescriptorProto
_KINDS: Final = {
    "string": _Proto.TYPE_STRING,
    "bytes": _Proto.TYPE_BYTES,
    "bool": _Proto.TYPE_BOOL,
    "enum": _Proto.TYPE_INT32,
}


def _declared() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files: dict[str, descriptor_pb2.FileDescriptorProto] = {}
    for name, fields in FIELDS.items():
        package, _, short = name.rpartition(".")
        if package not in files:
            file = descriptor_pb2.FileDescriptorProto(name=f"pointsman/{package}.proto", package=package)
            file.syntax = "proto3"
            file.dependency.extend(each.name for each in files.values())
            files[package] = file
        _declare(files[package].message_type.add(name=short), fields)
    for file in files.values():
        pool.Add(file)
    return pool


def _declare(message: descriptor_pb2.DescriptorProto, fields: Mapping[str, _Field]) -> None:
    oneofs: dict[str, int] = {}
    for name, field in fields.items():
        added = message.field.add(name=name, number=field.number)
        added.label = _Proto.LABEL_REPEATED if field.repeated else _Proto.LABEL_OPTIONAL
        if field.kind in _KINDS:
            added.type = _KINDS[field.kind]
        else:
            added.type, added.type_name = _Proto.TYPE_MESSAGE, f".{field.kind}"
        if field.oneof:
            if field.oneof not in oneofs:
                oneofs[field.oneof] = len(oneofs)
                message.oneof_decl.add(name=field.oneof)
            added.oneof_index = oneofs[field.oneof]


_POOL: Final = _declared()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


# The messages inside these are written as mappings from fields to values.
ProcessingRequest: Final = _message(_EXT_PROC + "ProcessingRequest")
ProcessingResponse: Final = _message(_EXT_PROC + "ProcessingResponse")
