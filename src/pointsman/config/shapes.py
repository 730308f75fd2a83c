"""The configuration: one immutable type per table of ``pointsman.toml``.

These types are the only description of the file: the loader checks against them, and the page
``docs/reference/configuration.md`` is printed from them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, field

from pointsman.agreement import AgreementPolicy
from pointsman.capabilities import CapabilitySettings
from pointsman.config.files import state_file
from pointsman.config.serving import (
    AccessSpec,
    ExtProcSpec,
    KeySpec,
    TeamSpec,
    TelemetrySpec,
)
from pointsman.decision.decision import TextMode
from pointsman.decision.policy import DomainSettings
from pointsman.guidance import GuidancePolicy
from pointsman.model_choice.chains import Pool, Served, pools
from pointsman.model_choice.choice import Switching
from pointsman.prices import Price
from pointsman.tiers import EscalationPolicy, LearnedRouterSettings, ProjectSettings, RoleTiers, Verification
from pointsman.upstreams.port import DEMO_URL, Secret, ServerSpec, UpstreamSpec
from pointsman.vocabulary import DAY, Mode, ModelSpec, Share, Tier

#: Marks a key that holds the models of a tier: a name, a table, or a list of both.
POOL: Final = {"pool": True}

#: Session stores that need no plug-in.
SESSION_STORES: Final = ("memory", "sqlite", "valkey")

_Count = Annotated[int, Meta(ge=1)]


def demo_ledger() -> Path:
    """Return where ``pointsman serve --demo`` writes: apart from the decisions of real traffic."""
    return state_file("demo.sqlite")


class LearnedRouterSpec(LearnedRouterSettings, frozen=True, kw_only=True):
    """A router trained on recorded outcomes. The profile decides prompts that are out of distribution."""

    file: Annotated[Path, Meta(description="Learned router file, written by `pointsman fit tiers`.")]


class ProjectsSpec(ProjectSettings, frozen=True, kw_only=True):
    """Tiers by project, learned from recorded outcomes. Without this table all projects are decided alike."""

    file: Annotated[Path, Meta(description="File of projects, written by `pointsman fit projects`.")]


class TiersSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which model serves which tier, and how the tier is decided."""

    profile: Annotated[str, Meta(description="`default`, `seed`, or the path of your own profile file.")] = (
        "default"
    )
    simple: Annotated[Served | None, Meta(description="Models of tier SIMPLE.", extra=POOL)] = None
    medium: Annotated[Served | None, Meta(description="Models of tier MEDIUM.", extra=POOL)] = None
    complex: Annotated[Served | None, Meta(description="Models of tier COMPLEX.", extra=POOL)] = None
    reasoning: Annotated[Served | None, Meta(description="Models of tier REASONING.", extra=POOL)] = None
    boundaries: Annotated[
        tuple[float, float, float] | None,
        Meta(
            description="Scores at which MEDIUM, COMPLEX and REASONING begin; default: the profile's. "
            "`pointsman fit policy` chooses them from outcomes."
        ),
    ] = None
    switching: Annotated[
        Switching,
        Meta(
            description="When a session leaves the tier of its start: `upward` moves it up at each user "
            "message, and down where that saves more than re-writing the context at the other model; "
            "`weighed` moves it down alone; `session` not at all. With both of these a sub-agent and a "
            "compaction are a start, and trouble (`[tiers.escalation]`, guidance) still raises the tier."
        ),
    ] = "upward"
    learned_router: Annotated[LearnedRouterSpec | None, Meta(description="See [tiers.learned_router].")] = (
        None
    )
    kinds: Annotated[
        str,
        Meta(
            description="Kinds of prompts that shift the score of the rules by how hard they are for models: "
            "`off`, `default` (the shipped ones) or the path of a file by `pointsman fit kinds`. They need "
            "the extra `static`; without it the rules decide alone."
        ),
    ] = "off"
    verify: Annotated[Verification | None, Meta(description="See [tiers.verify].")] = None
    projects: Annotated[ProjectsSpec | None, Meta(description="See [tiers.projects].")] = None
    escalation: Annotated[EscalationPolicy | None, Meta(description="See [tiers.escalation].")] = None
    roles: Annotated[RoleTiers, Meta(description="See [tiers.roles].")] = RoleTiers()

    @property
    def pools(self) -> dict[Tier, Pool]:
        """The models of each tier; a tier without one is left out."""
        named = zip(Tier, (self.simple, self.medium, self.complex, self.reasoning), strict=True)
        return pools({tier: served for tier, served in named if served is not None})

    @property
    def models(self) -> dict[Tier, str]:
        """The first model of each tier; a tier without one is left out."""
        return {tier: pool[0].model for tier, pool in self.pools.items()}


class GuidanceSpec(GuidancePolicy, frozen=True, kw_only=True):
    """Whether a stuck agent gets hints, and when it counts as stuck."""

    # An operator learns whether hints help; a program that sets no policy of its own runs no experiment.
    control: Annotated[
        Share,
        Meta(description="Share of sessions in the control group, in which due hints are withheld."),
    ] = 0.1


class DomainsSpec(DomainSettings, frozen=True, kw_only=True):
    """Whether the prompt is enriched for the task domains of the conversation."""

    file: Annotated[
        Path | None, Meta(description="Your own domain file; default: the eleven built-in domains.")
    ] = None
    profiles: Annotated[Path | None, Meta(description="Directory of per-model enrichment profiles.")] = None


class CapabilitiesSpec(CapabilitySettings, frozen=True, kw_only=True):
    """Which capabilities and tools a task needs, and whether a request loses the other tools."""

    mode: Annotated[
        Mode | None,
        Meta(
            description="`observe` selects and records but changes no request; `on` also removes tools "
            "beyond the maximum `tools`. Default: `on` with `tools`, `file` or "
            "`application`, else `off`."
        ),
    ] = None
    file: Annotated[
        Path | None,
        Meta(
            description="Your own [capabilities](capabilities.md#capabilities-file), as JSON: candidates of "
            "every request beside its tools. A tool with the name of one is judged by its guide."
        ),
    ] = None
    application: Annotated[
        str,
        Meta(
            description="In place of `file`: an application in Python, whose capabilities these are. A file "
            "that defines `application` (`app.py`), or an entry point (`package.module:name`). It is run."
        ),
    ] = ""
    calibration: Annotated[
        Path | None,
        Meta(description="Calibration file, written by `pointsman fit capabilities` with this `encoder`."),
    ] = None
    tools: Annotated[
        _Count | None,
        Meta(
            description="Maximum number of relayed tools, besides those called, forced or always active, "
            "where the scores say which are needed; all are relayed where they do not. Default: all."
        ),
    ] = None

    @property
    def effective_mode(self) -> Mode:
        """The mode, also where the file does not say."""
        if self.mode is not None:
            return self.mode
        return Mode.OFF if self.tools is None and self.file is None and not self.application else Mode.ON


class LedgerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded about decisions, and for how long."""

    path: Annotated[
        Path,
        Meta(
            description="The SQLite file; default: `pointsman/ledger.sqlite` in the user's state directory. "
            "`{project}` in it stands for the project of the working directory: each has its own ledger."
        ),
    ] = field(default_factory=lambda: state_file("ledger.sqlite"))
    url: Annotated[
        str | None,
        Meta(
            description="Address of a PostgreSQL database, instead of a file: "
            "`postgresql://user@host:5432/name`; no password in it."
        ),
    ] = None
    password: Annotated[Secret | None, Meta(description='Password of the database: `"${PGPASSWORD}"`.')] = (
        None
    )
    jsonl: Annotated[
        Path | None,
        Meta(
            description="JSON lines, instead of a database: a file, or `-` for standard output. They are "
            "written only: pages know the newest decisions of this process."
        ),
    ] = None
    rotate_mb: Annotated[
        _Count, Meta(description="MiB of a file of JSON lines after which a new one begins.")
    ] = 64
    gzip: Annotated[bool, Meta(description="Pack the files of JSON lines before it.")] = True
    text: Annotated[
        TextMode,
        Meta(description="What is stored of a prompt: nothing, its hash, the redacted text, or the text."),
    ] = "off"
    queue: Annotated[
        _Count,
        Meta(
            description="Queue length: from half of it on entries wait in a file (`spill_mb`), or are lost."
        ),
    ] = 10_000  # a stalled disk for ten seconds at 1,000 requests a second
    spill_mb: Annotated[
        int,
        Meta(
            ge=0,
            description="MiB of the file, for each process, where entries beyond the queue wait while the "
            "database is away or slow; beyond it they are lost and counted. 0: no file. Not for JSON lines.",
        ),
    ] = 256
    keep_days: Annotated[
        int,
        Meta(
            ge=0,
            description="Retention: entries older than this are removed; 0 keeps them regardless of age.",
        ),
    ] = 30
    max_mb: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description="Retention: beyond this many MiB the oldest entries are removed; 0 sets no limit. "
            "Default: 1,024 for files, no limit for PostgreSQL."
        ),
    ] = None

    keep_sums_days: Annotated[
        int,
        Meta(
            ge=0,
            description="Retention of the sums by hour, from which savings are read: they outlive the "
            "entries; 0 keeps them regardless of age. Not for JSON lines.",
        ),
    ] = 1_825  # five years

    @property
    def place(self) -> str:
        """Its location, for display."""
        if self.jsonl is not None:
            return "standard output" if self.is_output else str(self.jsonl)
        return self.url or str(self.path)

    @property
    def most_mb(self) -> int | None:
        """The bound of size in MiB; None if unlimited."""
        usual = 1_024 if self.url is None else 0
        return (usual if self.max_mb is None else self.max_mb) or None

    @property
    def is_output(self) -> bool:
        """Whether rows go to standard output."""
        return self.jsonl is not None and self.jsonl.name == "-"


class SessionsSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where session memory is stored between requests."""

    store: Annotated[
        str,
        Meta(
            description="`memory` is lost at restart, `sqlite` is not, `valkey` is shared by replicas; or a "
            "plug-in's name."
        ),
    ] = "memory"
    size: Annotated[
        _Count,
        Meta(
            description="Maximum number of sessions; the caller with the most loses its least recently used."
        ),
    ] = 6_000  # 3 to 4 kB each: the gateway stays below 100 MB
    ttl: Annotated[
        float, Meta(gt=0, description="Seconds after which an unused session is deleted (time to live).")
    ] = DAY  # a person comes back the next morning
    path: Annotated[
        Path,
        Meta(description="File of store `sqlite`; default: `pointsman/sessions.sqlite` beside the ledger."),
    ] = field(default_factory=lambda: state_file("sessions.sqlite"))
    url: Annotated[
        str | None, Meta(description="Address of store `valkey`: `redis://host:6379/0`; no password in it.")
    ] = None
    password: Annotated[
        Secret | None, Meta(description='Password of store `valkey`: `"${VALKEY_PASSWORD}"`.')
    ] = None


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of an agent's run: `pointsman run`, and applications that set none of their own."""

    max_steps: Annotated[_Count, Meta(description="Nodes that run, retries included.")] = 100
    max_execution_time_seconds: Annotated[
        float, Meta(gt=0, description="Seconds of work and waiting, without a person's time to approve.")
    ] = 300.0
    max_planning_attempts: Annotated[_Count, Meta(description="Plans, the first one included.")] = 2
    max_reclassifications: Annotated[
        int, Meta(ge=0, description="Times that capabilities are selected again.")
    ] = 1
    max_step_retries: Annotated[int, Meta(ge=0, description="Retries of one step after another failure.")] = 3


class ConsoleSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's pages for people, under `/console`."""

    enabled: Annotated[bool, Meta(description="Serve the console.")] = True
    callers: Annotated[
        tuple[str, ...],
        Meta(
            description="Names of the keys that may open the console, which shows what all callers did, "
            "beside those of role `viewer` and `admin`. Default: the only caller; with several, none."
        ),
    ] = ()
    curve: Annotated[
        Path | None,
        Meta(description="Curve file, written by `pointsman fit policy --curve`, for the page Quality."),
    ] = None
    login_hours: Annotated[
        float, Meta(gt=0, description="Hours after which a browser must sign in again, where keys are set.")
    ] = 12.0


class ShadowSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Another policy or model, evaluated on live traffic. No response is delayed or changed."""

    policy: Annotated[
        Path | None,
        Meta(
            description="Shadow policy that also decides every request: a `pointsman.toml` or a tier profile."
        ),
    ] = None
    model: Annotated[
        str | None, Meta(description="Shadow model that also gets requests, after they were answered.")
    ] = None
    share: Annotated[Share, Meta(description="Share of sessions whose requests are sent to `model`.")] = (
        0.05  # at the price of the model that serves: 5 % on top
    )
    seed: Annotated[int, Meta(description="Random seed of the sampling.")] = 0
    concurrent: Annotated[
        _Count, Meta(description="Maximum concurrent requests to `model`; others are skipped.")
    ] = 4
    per_minute: Annotated[_Count, Meta(description="Rate limit: maximum requests to `model` per minute.")] = (
        30
    )
    text: Annotated[
        TextMode,
        Meta(description="What is stored of both responses, so that they can be judged; as [ledger] `text`."),
    ] = "off"
    money_per_day: Annotated[
        Price | None,
        Meta(description="Maximum cost of `model` per day, in US dollars."),
    ] = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an operator can set.

    Once loaded, models have the formats of their upstream, and the server the digests of all keys.
    """

    upstreams: dict[str, UpstreamSpec] = field(default_factory=dict)
    tiers: TiersSpec = field(default_factory=TiersSpec)
    aliases: Annotated[
        dict[str, str],
        Meta(
            description='What the names mean that clients ask for: `"gpt-5*" = "auto"`. In a pattern, `*` '
            "stands for any characters. A target is `auto`, a tier, a model, the pattern of another alias, "
            "or `refuse`. The first pattern that matches counts; the [aliases of today's clients]"
            "(../how-to/agents.md#model-names) follow after these."
        ),
    ] = field(default_factory=dict)
    guidance: GuidanceSpec = field(default_factory=GuidanceSpec)
    domains: DomainsSpec = field(default_factory=DomainsSpec)
    capabilities: CapabilitiesSpec = field(default_factory=CapabilitiesSpec)
    ledger: LedgerSpec = field(default_factory=LedgerSpec)
    sessions: SessionsSpec = field(default_factory=SessionsSpec)
    run: RunSpec = field(default_factory=RunSpec)
    shadow: ShadowSpec = field(default_factory=ShadowSpec)
    agreement: dict[str, AgreementPolicy] = field(default_factory=dict)
    console: ConsoleSpec = field(default_factory=ConsoleSpec)
    telemetry: TelemetrySpec = field(default_factory=TelemetrySpec)
    keys: dict[str, KeySpec] = field(default_factory=dict)
    teams: dict[str, TeamSpec] = field(default_factory=dict)
    access: AccessSpec = field(default_factory=AccessSpec)
    ext_proc: ExtProcSpec = field(default_factory=ExtProcSpec)
    models: dict[str, ModelSpec] = field(default_factory=dict)
    server: ServerSpec = field(default_factory=ServerSpec)
    #: The file it was read from; empty when there was none.
    source: Annotated[str, Meta(extra={"derived": True})] = ""


def demo_config() -> Config:
    """Two models of the built-in demo upstream; guidance on for every session; a separate ledger.

    Its ledger stores the words of prompts, redacted, so that a decision can be read with its prompt.
    """
    models = {
        name: ModelSpec(
            name, "demo", name, input_per_million=price, output_per_million=5 * price, context_window=128_000
        )
        for name, price in (("demo-small", 0.1), ("demo-large", 3.0))
    }
    return Config(
        upstreams={"demo": UpstreamSpec("demo", DEMO_URL)},
        models=models,
        tiers=TiersSpec(
            simple="demo-small", medium="demo-small", complex="demo-large", reasoning="demo-large"
        ),
        guidance=GuidanceSpec(mode=Mode.ON, control=0.0),
        domains=DomainsSpec(mode=Mode.OBSERVE),
        ledger=LedgerSpec(path=demo_ledger(), text="redacted"),
    )
