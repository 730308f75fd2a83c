"""The cheapest tier that is good enough for a project, from a file made from its outcomes.

Pure: probabilities are computed where the file is made (``learning/projects.py``); here one is looked up.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError
from pointsman.text.extract import draw
from pointsman.vocabulary import AgentRole, Mode, Purpose, Tier

__all__ = [
    "ANY",
    "FORMAT",
    "PRIOR",
    "SEPARATOR",
    "SESSION",
    "Cell",
    "CellName",
    "ProjectPolicy",
    "ProjectSettings",
    "ProjectTier",
    "Projects",
    "RoleTier",
    "RoleTiers",
    "cell_name",
    "name_of",
    "named_cell",
    "read_projects",
    "tier_of_project",
]

#: Version of the file's format; another one is refused.
FORMAT: Final = 1
#: Stands for every kind of prompt, or every role.
ANY: Final = "*"
#: Stands between the parts of a cell's name.
SEPARATOR: Final = "|"

#: Pseudo-outcomes of the level above (other projects, the project as a whole) that a probability counts.
PRIOR: Final = 10.0
#: Below this chance the outcomes of a role or kind rather speak against a tier.
_EVEN: Final = 0.5


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """One project, or a kind and role of it: the outcomes of each model, and the tier good enough."""

    outcomes: int  # own, of all models
    models: dict[str, tuple[float, float, float]]  # name -> successes, outcomes (both decayed), mean expected
    chance: dict[str, float] = {}  # by tier in lower case: the probability that it is good enough
    tier: str = ""  # the cheapest that is with enough certainty, in lower case; empty: none is known to be


class Projects(msgspec.Struct, frozen=True):
    """A file of projects: the cells by name."""

    target: float  # success that is good enough, or with ``keep`` the share of the best tier's
    keep: bool
    certainty: float  # probability with which a tier must reach it
    made_at: float  # seconds since the epoch: of the latest outcome
    cells: dict[str, Cell]  # by ``cell_name``
    format: int = FORMAT


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Tiers by project, learned from recorded outcomes. Without this table no project has a separate tier."""

    mode: Annotated[
        Mode, Meta(description="`observe` records what the project's tier would be; `on` uses it.")
    ] = Mode.OBSERVE
    explore: Annotated[
        Annotated[float, Meta(ge=0, le=0.5)],
        Meta(
            description="Share of user messages that try the next cheaper tier, so that outcomes of it "
            "become known. Only where a project has a tier."
        ),
    ] = 0.0
    seed: Annotated[int, Meta(description="Random seed of the exploration.")] = 0


class ProjectPolicy(ProjectSettings, frozen=True, kw_only=True):
    """The settings with the content of the file."""

    projects: Projects


class ProjectTier(NamedTuple):
    """The tier of a project for a user message."""

    tier: Tier
    why: str
    explores: bool = False


class CellName(NamedTuple):
    """Project, kind and role of a cell."""

    project: str  # may hold the separator; kind and role hold none
    kind: str = ANY
    role: str = ANY


def cell_name(project: str, kind: str = ANY, role: str = ANY) -> str:
    """The name of a cell: ``project|kind|role``."""
    return SEPARATOR.join((project, kind, role))


def named_cell(name: str) -> CellName:
    """Split a name that ``cell_name`` made."""
    return CellName(*name.rsplit(SEPARATOR, 2))


def read_projects(data: bytes, place: str) -> Projects:
    """Read a file that ``pointsman fit projects`` wrote.

    Raises:
        ConfigError: it is not one, or of another format.
    """
    try:
        found = msgspec.json.decode(data, type=Projects)
    except UNREADABLE as error:
        raise ConfigError(
            why_unreadable(error), place=place, hint="pointsman fit projects makes one"
        ) from error
    if found.format != FORMAT:
        raise ConfigError(
            f"a file of format {found.format}; this version reads {FORMAT}",
            place=place,
            hint="pointsman fit projects makes a new one",
        )
    return found


def tier_of_project(
    policy: ProjectPolicy, project: str, role: str, kind: str, *, message: str, tiers: tuple[Tier, ...]
) -> ProjectTier | None:
    """Return the tier of a project's user message; None if no tier is known to be good enough.

    The most particular cell with a chance for a tier counts: kind and role, role, kind, the project as a
    whole. A tier that one of them gives less than an even chance is not taken from a wider one: the project
    may do well on it where this role of the project is known to fail.

    Args:
        policy: The file and its settings.
        project: Its key.
        role: The name of the request's role.
        kind: Of the prompt; ``ANY`` where kinds are not looked for.
        message: Key by which the exploration is drawn: the same on every tool iteration.
        tiers: Those that have a model, the cheapest first.
    """
    cells = policy.projects.cells
    doubted: set[str] = set()
    names = [cell_name(project, each, of) for each, of in ((kind, role), (ANY, role), (kind, ANY))]
    for name in dict.fromkeys((*names, cell_name(project))):
        cell = cells.get(name)
        if cell is None:
            continue
        if cell.tier and cell.tier not in doubted:
            return _explored(policy, Tier(cell.tier.upper()), cell, message, tiers)
        doubted.update(tier for tier, chance in cell.chance.items() if chance < _EVEN)
    return None


def _explored(
    policy: ProjectPolicy, tier: Tier, cell: Cell, message: str, tiers: tuple[Tier, ...]
) -> ProjectTier:
    found = policy.projects
    goal = f"{found.target:g} of the best tier's success" if found.keep else f"success {found.target:g}"
    chance = cell.chance.get(tier.lower(), 0.0)
    evidence = f"{cell.outcomes} outcomes of its own and {PRIOR:g} borrowed of each model"
    why = f"{tier} reaches {goal} with probability {chance:.2f}, by {evidence}"
    below = [step for step in tiers if step.rank < tier.rank]
    if policy.explore and below and draw(policy.seed, message) < policy.explore:
        cheaper = below[-1]
        return ProjectTier(cheaper, f"exploration tries {cheaper}: {why}", explores=True)
    return ProjectTier(tier, why)


# Which tier serves each role of an agent's requests: a table of the configuration.

#: What serves a role: a tier, the session's model, or whatever is decided as for any other request.
RoleTier: TypeAlias = Literal["simple", "medium", "complex", "reasoning", "session", "decide"]

#: The request stays with its session's model: the provider has its beginning in the prompt cache.
SESSION: Final = "session"

_SUBAGENT: Final = "subagent"
#: What most requests of a sub-agent are for, as those of the main conversation.
_WORK: Final = frozenset({Purpose.MESSAGE, Purpose.TOOL_ITERATION})


class RoleTiers(msgspec.Struct, frozen=True, kw_only=True):
    """Which tier serves requests that agents send outside their main conversation.

    It counts where the choice is left to the gateway: for the model `auto`, and for names that an alias maps
    to it. The default values: docs/notebook/0154.
    """

    title: Annotated[RoleTier, Meta(description="To name a session or a branch.")] = "simple"
    topic: Annotated[RoleTier, Meta(description="To tell whether a message begins a new topic.")] = "simple"
    summary: Annotated[
        RoleTier, Meta(description="Of a page, of what tools did, of changes to be committed.")
    ] = "simple"
    probe: Annotated[RoleTier, Meta(description="To see whether key, quota or model are valid.")] = "simple"
    helper: Annotated[
        RoleTier, Meta(description="Any other call without tools and with at most 1,024 tokens of output.")
    ] = "simple"
    compaction: Annotated[
        RoleTier, Meta(description="A summary that takes the place of the conversation.")
    ] = "session"
    side: Annotated[
        RoleTier, Meta(description="A question beside the conversation that repeats all of it.")
    ] = "session"
    check: Annotated[RoleTier, Meta(description="Whether a command may run.")] = "decide"
    plan: Annotated[RoleTier, Meta(description="A user message while the agent may only plan.")] = "decide"
    edit: Annotated[RoleTier, Meta(description="To write changes that another model has described.")] = (
        "decide"
    )
    subagent: Annotated[
        RoleTier, Meta(description="A sub-agent's requests, unless a role above fits them.")
    ] = "decide"

    def of(self, role: AgentRole | None, purpose: Purpose | None) -> RoleTier:
        """The setting for requests of this role and purpose; "decide" if the table has no entry for them."""
        if purpose is None and role is not AgentRole.SUBAGENT:
            return "decide"
        value: RoleTier = getattr(self, name_of(role, purpose), "decide")
        return value

    def tier(self, role: AgentRole | None, purpose: Purpose | None) -> Tier | None:
        """The tier that serves a request; None if the setting names no tier."""
        value = self.of(role, purpose)
        return None if value in {SESSION, "decide"} else Tier(value.upper())


def name_of(role: AgentRole | None, purpose: Purpose | None) -> str:
    """The name of a role as it is configured and reported; empty if role and purpose are unknown.

    The work of a sub-agent is ``subagent``, that of the main conversation ``message`` or ``tool_iteration``.
    """
    if role is AgentRole.SUBAGENT and (purpose is None or purpose in _WORK):
        return _SUBAGENT
    return (purpose or role or "").lower()
