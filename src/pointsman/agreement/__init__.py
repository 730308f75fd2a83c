"""Floor 3: whether the answers of two models agree: tool calls, structured output, short final answers.

Free text is never compared: that needs a judge. `pointsman eval answers` and the gateway compare with the
same code.
"""

from __future__ import annotations

from pointsman.agreement.answers import FinalAnswer, final_answer, same_answer
from pointsman.agreement.calls import canonical_calls
from pointsman.agreement.comparison import Agreement, Compared, compare

__all__ = [
    "Agreement",
    "Compared",
    "FinalAnswer",
    "canonical_calls",
    "compare",
    "final_answer",
    "same_answer",
]
