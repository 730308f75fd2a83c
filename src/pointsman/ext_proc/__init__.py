"""The gateway's decisions behind Envoy: a gRPC service that Envoy's external processing filter calls.

A request that Envoy shows goes through the gateway itself, with Envoy in the place of the upstream: what the
gateway would send is given back to Envoy, and what Envoy received is given to the gateway. So decisions,
refusals, guidance, ledger, metrics and log lines are the gateway's (docs/notebook/0193). Needs the extra
``extproc``.
"""
