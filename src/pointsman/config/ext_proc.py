"""The table ``[ext_proc]``: how Envoy reaches the decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

__all__ = ["ExtProcSpec"]


class ExtProcSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions behind Envoy: `pointsman ext-proc`. They need the extra `extproc`."""

    host: Annotated[
        str, Meta(description="Address to listen on; other than loopback with TLS or `insecure`.")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port of the gRPC service; 0: a free one.")] = (
        4_748
    )
    http_port: Annotated[
        Annotated[int, Meta(ge=0, le=65_535)] | None,
        Meta(description="Port for `/metrics` and `/health/…` over HTTP; not given: none."),
    ] = None
    model_headers: Annotated[
        tuple[str, ...],
        Meta(
            description="Request headers that are set to the model: `x-ai-eg-model`, `X-Gateway-Model-Name`."
        ),
    ] = ("x-ai-eg-model",)
    model_value: Annotated[
        Literal["id", "name"],
        Meta(description="What a model is called in them and in the body: its `id`, or its name here."),
    ] = "id"
    replace_body: Annotated[
        bool,
        Meta(description="Put the model's name and added guidance into the body; else only headers are set."),
    ] = True
    body_mode: Annotated[
        Literal["auto", "buffered", "full_duplex"],
        Meta(description="How bodies are sent; `auto`: as `protocol_config` says, else buffered."),
    ] = "auto"
    streams: Annotated[int, Meta(ge=1, description="Maximum number of requests in progress.")] = 1_024
    certificate: Annotated[Path | None, Meta(description="Certificate chain of the service, PEM.")] = None
    private_key: Annotated[Path | None, Meta(description="Its private key, PEM.")] = None
    client_ca: Annotated[
        Path | None,
        Meta(description="CA whose certificates callers must present, PEM; not given: none."),
    ] = None
    insecure: Annotated[bool, Meta(description="Listen without TLS on another address than loopback.")] = (
        False
    )

    def __post_init__(self) -> None:
        """Refuse valid values that contradict each other."""
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError('"certificate" and "private_key" are set together')
        if self.client_ca is not None and self.certificate is None:
            raise ValueError('"client_ca" needs "certificate"')
