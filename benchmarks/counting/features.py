"""Features that are switched off and on, and the files that belong to each alone."""

from typing import NamedTuple

__all__ = ["FEATURES", "Feature"]


class Feature(NamedTuple):
    """A feature of the gateway.

    Args:
        off: Tables of the configuration that leave it out.
        on: Tables that switch it on.
        files: Beginnings of the names of its files, below the package.
    """

    off: str
    on: str
    files: tuple[str, ...]


def mode(table: str, *files: str) -> Feature:
    return Feature(f'[{table}]\nmode = "off"', f'[{table}]\nmode = "on"', files)


#: SHA-256 of "bench", the key of the requests.
LIMITED = """
[keys.ci]
sha256 = "1b32c28cb38c05480eccc1bd60ff97029b57a05c96718b96dad7e9d84894f549"
requests_per_minute = 100000
budget = { money = 100000 }

[access]
store = "sqlite"
path = "{folder}/budgets.sqlite"
"""

FEATURES = {
    "guidance": mode("guidance", "guidance/", "trajectory/"),
    "domains": mode("domains", "domains/"),
    "capabilities": Feature("", '[capabilities]\nmode = "observe"', ("capabilities/", "encoders/")),
    "shadow model": Feature(
        "",
        '[shadow]\nmodel = "large"\nshare = 1.0\nper_minute = 100000',
        ("shadow", "gateway/_shadow_model.py"),
    ),
    "limited key": Feature("", LIMITED, ("access/", "stores/budgets/", "gateway/_limits.py")),
    "text": Feature('[ledger]\ntext = "off"', '[ledger]\ntext = "full"', ("stores/ledger/redact.py",)),
    "console": Feature("[console]\nenabled = false", "[console]\nenabled = true", ("console/",)),
    "telemetry": Feature("", '[telemetry]\nendpoint = "http://127.0.0.1:{upstream}"', ("telemetry/",)),
    "router command": Feature(
        "",
        "[server]\nrouter_command = true",
        ("gateway/_capability_commands.py", "gateway/_local_replies.py"),
    ),
    "sessions in a file": Feature("", '[sessions]\nstore = "sqlite"', ("stores/sessions/_sqlite",)),
    "escalation": Feature("", '[tiers.escalation]\nmode = "on"', ("tiers/escalation",)),
}
