"""Scores of LiteLLM's complexity router: JSON lines of prompts in, one line of scores out.

Run by ``learned_router_quality.py`` with the interpreter of an environment that has litellm; nothing of
Pointsman's is
needed there. The router is asked for its own weighted score, with its own configuration.
"""

import json
import sys
from importlib.metadata import version
from unittest.mock import MagicMock

#: Releases that were tampered with.
MALICIOUS = {"1.82.7", "1.82.8"}


def main() -> None:
    if version("litellm") in MALICIOUS:
        sys.exit("this release of litellm is malicious: install another")
    from litellm.router_strategy.complexity_router.complexity_router import ComplexityRouter

    tiers = {"SIMPLE": "a", "MEDIUM": "b", "COMPLEX": "c", "REASONING": "d"}
    router = ComplexityRouter("auto", MagicMock(), {"tiers": tiers}, default_model="a")
    scores = [router.classify(json.loads(line))[1] for line in sys.stdin]
    print(json.dumps({"version": version("litellm"), "scores": scores}))


if __name__ == "__main__":
    main()
