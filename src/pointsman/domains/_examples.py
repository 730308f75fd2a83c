"""Example-based matching: for a message without signals, the nearest example utterance.

Off unless an encoder is given, and labelled ``Source.EXAMPLES`` where it decides. A message without signals
is most often about what the conversation was about before (93 % of such turns in a public set), so an example
must be nearer to overrule what memory carries than to speak where memory has nothing (docs/decisions/0043).
"""

from __future__ import annotations

from typing import Final

from pointsman.domains.data import DomainSet
from pointsman.domains.scoring import Reading
from pointsman.domains.values import Compound, DomainClass, Part, Source
from pointsman.vocabulary import Encoder

__all__ = ["ExampleMatcher"]

#: Least cosine with the nearest example where memory has no task, and where it has one.
NEAR: Final = 0.4
VERY_NEAR: Final = 0.6

#: Least lead over the nearest example of any other domain.
LEAD: Final = 0.05


class ExampleMatcher:
    """Compares messages with the example utterances of a domain set.

    Examples of the null domain ("that sounds good") keep small talk out: what is nearest to one of them is
    nothing else.
    """

    def __init__(self, domains: DomainSet, encoder: Encoder) -> None:
        """Encode the examples once. Domains without examples are never found here."""
        self._encoder = encoder
        self._examples = [(domain, text) for domain in domains for text in domain.examples]
        self._vectors = encoder.encode([text for _, text in self._examples])

    def read(self, text: str, *, carrying: bool) -> Reading | None:
        """Read one message that has no signal.

        Args:
            text: the user's words.
            carrying: memory has a task that the message would go on with.

        Returns:
            A reading of one domain with one signal, the example; None when no example is near enough.
        """
        if not self._examples:
            return None
        similarities = (self._vectors @ self._encoder.encode([text])[0]).tolist()
        best, nearest = max((similarity, -index) for index, similarity in enumerate(similarities))
        domain, example = self._examples[-nearest]
        rival = max(
            (s for s, (other, _) in zip(similarities, self._examples, strict=True) if other is not domain),
            default=0.0,
        )
        near_enough = best >= (VERY_NEAR if carrying else NEAR) and best - rival >= LEAD
        if domain.kind is DomainClass.NULL or not near_enough:
            return None
        part = Part(domain.name, 1, (f"like: {example}",), source=Source.EXAMPLES)
        return Reading((part,), Compound(part))
