"""
title: Pointsman
description: Chooses the model of each message by its tier; thumbs become outcomes.
requirements: pointsman
version: 0.1.0
"""

from pydantic import BaseModel, Field

from pointsman.integrations.open_webui import ChatFilter


def thumbs(user_id):
    """The ratings of a user, from Open WebUI's database."""
    from open_webui.models.feedbacks import Feedbacks

    return Feedbacks.get_feedbacks_by_user_id(user_id)


class Filter:
    """The filter function: Open WebUI calls ``inlet`` before a model gets a message."""

    class Valves(BaseModel):
        """What an administrator sets. Empty: messages of this tier stay with the model that was chosen."""

        simple: str = Field("", description="Model id for the tier SIMPLE.")
        medium: str = Field("", description="Model id for the tier MEDIUM.")
        complex: str = Field("", description="Model id for the tier COMPLEX.")
        reasoning: str = Field("", description="Model id for the tier REASONING.")
        hints: bool = Field(True, description="Add hints and domain texts, where pointsman.toml has them on.")
        priority: int = Field(0, description="Order among filters.")

    def __init__(self):
        """Make ready; nothing is read before the first message."""
        self.valves = self.Valves()
        self._made = None, None

    async def inlet(self, body, __user__=None, __metadata__=None):
        """Choose the model of a message."""
        return await self._filter().inlet(body, __user__, __metadata__)

    def _filter(self):
        """What decides by these valves: Open WebUI sets them anew before each call."""
        given = self.valves.model_dump()
        if self._made[0] != given:
            tiers = ("simple", "medium", "complex", "reasoning")
            models = {tier: given[tier] for tier in tiers if given[tier]}
            self._made = given, ChatFilter(models, ratings=thumbs, hints=given["hints"])
        return self._made[1]
