"""Guidance classes of somebody else, named by entry point in tests."""

from pointsman.guidance import ClassificationResult, GuidanceContext, GuidanceInjection


class Always:
    """Speaks at every moment."""

    version = "1"

    def __init__(self, confidence: float = 0.9) -> None:
        self._confidence = confidence

    @property
    def name(self) -> str:
        return "always"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        return ClassificationResult.yes(
            self._confidence, f"asked: {context.prompt}; said: {context.last_response}"
        )


class NewAlways(Always):
    """The same in another version."""

    version = "2"


class Broken(Always):
    """Fails."""

    @property
    def name(self) -> str:
        return "broken"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        raise KeyError(context.prompt)


class Unversioned:
    """States no version."""

    name = "unversioned"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        return ClassificationResult.no()


class Adviser(Always):
    """A provider: a classifier with words of its own."""

    category = "general"

    def provide(self, context: GuidanceContext) -> GuidanceInjection:
        return GuidanceInjection("adviser", f"After {context.tool_call_count} calls.", priority=7)


class Renaming(Always):
    """Has another name each time, and answers with no result."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    @property
    def name(self) -> str:
        self._asked += 1
        if self._asked > 2:
            raise RuntimeError("no name any more")
        return "renaming"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        return None  # type: ignore[return-value]
