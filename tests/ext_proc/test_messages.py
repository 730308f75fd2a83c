"""The declared messages are those of Envoy, where its published package is installed."""

from importlib import import_module
from typing import Any

import pytest

from pointsman.ext_proc import messages

MODULES = {
    "envoy.config.core.v3": "envoy.config.core.v3.base_pb2",
    "envoy.type.v3": "envoy.type.v3.http_status_pb2",
    "envoy.service.ext_proc.v3": "envoy.service.ext_proc.v3.external_processor_pb2",
}
MISSING = "xds-protos is not installed here: make envoy"
#: Numbers of protobuf's types: an enum may be read as an int32.
KINDS = {"string": {9}, "bytes": {12}, "bool": {8}, "enum": {5, 14}}


@pytest.mark.parametrize("name", messages.FIELDS)
def test_names_and_numbers_are_envoys(name: str) -> None:
    package, _, short = name.rpartition(".")
    published = pytest.importorskip(MODULES[package], reason=MISSING)
    theirs: Any = getattr(published, short).DESCRIPTOR
    for field, declared in messages.FIELDS[name].items():
        found = theirs.fields_by_name[field]
        assert found.number == declared.number
        assert found.is_repeated == declared.repeated
        assert found.type in KINDS.get(declared.kind, {11})
        assert declared.kind in KINDS or found.message_type.full_name == declared.kind
        assert (found.containing_oneof.name if found.containing_oneof else "") == declared.oneof


def test_what_envoy_sends_is_read_and_what_is_sent_envoy_reads() -> None:
    published = pytest.importorskip(MODULES["envoy.service.ext_proc.v3"], reason=MISSING)
    sent = published.ProcessingRequest(
        request_body={"body": b"{}", "end_of_stream": True}, observability_mode=True
    )
    sent.protocol_config.request_body_mode = 4
    read = messages.ProcessingRequest.FromString(sent.SerializeToString())
    assert read.WhichOneof("request") == "request_body"
    assert (read.request_body.body, read.request_body.end_of_stream) == (b"{}", True)
    assert messages.BODY_MODES[read.protocol_config.request_body_mode] == "full duplex streamed"
    header = {"key": "x-ai-eg-model", "raw_value": b"m"}
    option = {"header": header, "append_action": messages.OVERWRITE}
    common = {"clear_route_cache": True, "header_mutation": {"set_headers": [option]}}
    ours = messages.ProcessingResponse(request_headers={"response": common})
    theirs = published.ProcessingResponse.FromString(ours.SerializeToString())
    assert theirs.request_headers.response.clear_route_cache
    (found,) = theirs.request_headers.response.header_mutation.set_headers
    assert (found.header.key, found.header.raw_value) == ("x-ai-eg-model", b"m")
    assert found.append_action == found.OVERWRITE_IF_EXISTS_OR_ADD


def test_modes_are_envoys() -> None:
    name = "envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2"
    published = pytest.importorskip(name, reason=MISSING)
    assert import_module(name) is published
    theirs = published.ProcessingMode.BodySendMode.items()
    assert [each.lower().replace("_", " ") for each, _ in theirs] == list(messages.BODY_MODES)
