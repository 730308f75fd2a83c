"""Parts that the service behind Envoy and the command ``serve`` share with the gateway."""

from pointsman.gateway._credentials import caller_credentials
from pointsman.gateway._inbound import (
    BodyBudget,
    BodyReservation,
    Receive,
    Scope,
    Send,
    authorise,
)
from pointsman.gateway._live_state import LiveState, relaying
from pointsman.gateway._local_replies import CapturedAnswer, send_refusal, whole_body
from pointsman.gateway._metrics import Metrics
from pointsman.gateway._response_headers import response_headers

__all__ = [
    "BodyBudget",
    "BodyReservation",
    "CapturedAnswer",
    "LiveState",
    "Metrics",
    "Receive",
    "Scope",
    "Send",
    "authorise",
    "caller_credentials",
    "relaying",
    "response_headers",
    "send_refusal",
    "whole_body",
]
