"""The gateway's decisions behind Envoy: a gRPC service that Envoy's external processing filter calls.

A request that Envoy shows passes through the gateway itself, with Envoy in the place of the upstream: Envoy
gets the request that the gateway would send, and the gateway the answer that Envoy received. So decisions,
refusals, guidance, ledger, metrics and log lines are the gateway's (docs/notebook/0193). Needs the extra
``extproc``.
"""
