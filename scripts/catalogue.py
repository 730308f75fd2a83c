"""Writes the catalogue of models that is shipped (src/pointsman/catalogue/models.json).

    pip install --target DIR --no-deps litellm==1.109.1 genai-prices==0.2.3
    .venv/bin/python scripts/catalogue.py DIR --date 2026-11-22

Facts come from LiteLLM's price map; a price is taken only where genai-prices has the same. What both do not
say (how long a provider keeps its prompt cache, windows of open models) stands in this file with its source.
"""

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from pointsman.catalogue import Catalogue, CatalogueEntry
from pointsman.catalogue._update import SHIPPED, encode, from_litellm

MAP = "litellm/model_prices_and_context_window_backup.json"
VERSIONS = "LiteLLM 1.109.1; prices checked against genai-prices 0.2.3"

#: Provider -> its name in genai-prices.
PROVIDERS = {
    "anthropic": "anthropic",
    "deepseek": "deepseek",
    "google": "google",
    "mistral": "mistral",
    "openai": "openai",
    "xai": "x-ai",
}
#: Of these providers, models for other things than agents, and test versions.
LEFT_OUT = re.compile(
    r"^ft:|davinci|babbage|instruct|audio|search|research|computer-use|robotics|tts|lyria|learnlm|-exp|omni|leanstral|voxtral|daybreak"
    r"|cyber|rosalind|beta|experimental|gv2|container|vibe|code-fim|zai|glm|gemma|customtools|image|astra-law"
    r"|^deepseek-(v4-1|v3|r1|coder)|deep-"
)
#: Each price, and a use of tokens that costs it alone.
PRICES = {
    "input_per_million": {"input_tokens": 1000},
    "output_per_million": {"output_tokens": 1000},
    "cached_input_per_million": {"input_tokens": 1000, "cache_read_tokens": 1000},
    "cache_write_per_million": {"input_tokens": 1000, "cache_write_tokens": 1000},
}
#: A version behind an id, which the catalogue finds by the id alone.
DATED = re.compile(r"-(\d{4}-\d{2}-\d{2}|20\d{6}|\d{4}|latest)$")

#: Seconds after its last use that a prompt cache is gone at the latest, as the provider documents it.
LIFETIMES = (
    # https://platform.claude.com/docs/en/build-with-claude/prompt-caching: 5 minutes, refreshed by each use
    ("anthropic", re.compile(""), 300.0),
    # https://developers.openai.com/docs/guides/prompt-caching: in memory, always removed within one hour;
    # later families keep it for longer
    ("openai", re.compile(r"^(gpt-4o|gpt-4\.1|gpt-5(\.[1-4])?(-|$)|o\d)"), 3600.0),
)
#: The context window where the map gives the input alone: with the 128,000 tokens of the answer.
WITH_ANSWER = {272_000: 400_000, 922_000: 1_050_000}

#: Open models, by pattern: the window of their own documentation, without extensions such as YaRN; by size
#: where sizes differ. A name that stands for models with different windows (``qwen3:30b``) is not here: an
#: unknown window is better than one too large. A server may be set to less.
OPEN = {
    "codellama": 16_384,
    "codellama-13b*": 16_384,
    "codellama-34b*": 16_384,
    "codellama-7b*": 16_384,
    "codellama:13b*": 16_384,
    "codellama:34b*": 16_384,
    "codellama:7b*": 16_384,
    "command-r": 131_072,
    "command-r-*": 131_072,
    "command-r:*": 131_072,
    "deepseek-coder-v2*": 131_072,
    "deepseek-r1*": 131_072,
    "deepseek-v3*": 131_072,
    "deepseek-v4*": 1_048_576,
    "devstral*": 131_072,
    "devstral-2-123b*": 262_144,
    "devstral-2:*": 262_144,
    "devstral-small-2-24b*": 262_144,
    "gemma-2-*": 8_192,
    "gemma-3-*": 131_072,
    "gemma-3-1b*": 32_768,
    "gemma-3-270m*": 32_768,
    "gemma-3n-*": 32_768,
    "gemma-4-26b*": 262_144,
    "gemma-4-31b*": 262_144,
    "gemma-4-e2b*": 131_072,
    "gemma-4-e4b*": 131_072,
    "gemma2*": 8_192,
    "gemma3*": 131_072,
    "gemma3:1b*": 32_768,
    "gemma3:270m*": 32_768,
    "gemma3n*": 32_768,
    "gemma4:26b*": 262_144,
    "gemma4:31b*": 262_144,
    "gemma4:e2b*": 131_072,
    "gemma4:e4b*": 131_072,
    "glm-4.5*": 131_072,
    "glm-4.5v*": 65_536,
    "glm-4.6*": 200_000,
    "glm-4.6v*": 131_072,
    "glm-4.7*": 200_000,
    "gpt-oss*": 131_072,
    "kimi-k2*": 131_072,
    "kimi-k2-*0905*": 262_144,
    "kimi-k2-thinking*": 262_144,
    "kimi-k2.5*": 262_144,
    "kimi-k2.6*": 262_144,
    "llama-2-*": 4_096,
    "llama-3-*": 8_192,
    "llama-3.1-*": 131_072,
    "llama-3.2-*": 131_072,
    "llama-3.3-*": 131_072,
    "llama-4-maverick*": 1_048_576,
    "llama-4-scout*": 10_485_760,
    "llama2": 4_096,
    "llama2:*": 4_096,
    "llama3": 8_192,
    "llama3.1*": 131_072,
    "llama3.2*": 131_072,
    "llama3.3*": 131_072,
    "llama3:*": 8_192,
    "llama4:maverick*": 1_048_576,
    "llama4:scout*": 10_485_760,
    "meta-llama-3-*": 8_192,
    "meta-llama-3.1-*": 131_072,
    "minimax-m2*": 196_608,
    "mistral-7b*": 32_768,
    "mistral-nemo*": 131_072,
    "mistral-small3.1*": 131_072,
    "mistral-small3.2*": 131_072,
    "mixtral-8x22b*": 65_536,
    "mixtral-8x7b*": 32_768,
    "phi-4": 16_384,
    "phi-4-mini*": 131_072,
    "phi4": 16_384,
    "phi4-mini*": 131_072,
    "phi4:*": 16_384,
    "qwen2.5*": 32_768,
    "qwen2.5-*-1m*": 1_010_000,
    "qwen3": 32_768,
    "qwen3-*2507*": 262_144,
    "qwen3-0.6b*": 32_768,
    "qwen3-1.7b*": 32_768,
    "qwen3-14b*": 32_768,
    "qwen3-32b*": 32_768,
    "qwen3-4b*": 32_768,
    "qwen3-8b*": 32_768,
    "qwen3-coder*": 262_144,
    "qwen3-next*": 262_144,
    "qwen3-vl*": 262_144,
    "qwen3.5*": 262_144,
    "qwen3.6*": 262_144,
    "qwen3:*2507*": 262_144,
    "qwen3:0.6b*": 32_768,
    "qwen3:1.7b*": 32_768,
    "qwen3:14b*": 32_768,
    "qwen3:32b*": 32_768,
    "qwen3:8b*": 32_768,
    "qwen3:latest": 32_768,
    "qwq*": 32_768,
    "starcoder2*": 16_384,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--date", type=date.fromisoformat, required=True)
    options = parser.parse_args()
    sys.path.append(str(options.sources))
    models = json.loads((options.sources / MAP).read_text())
    read = from_litellm(models, place=MAP, as_of=options.date, origin=VERSIONS)
    entries = [*providers(read), *open_models()]
    entries.sort(key=lambda each: (each.provider, each.id))
    SHIPPED.write_text(encode(Catalogue(tuple(entries), as_of=options.date, origin=VERSIONS)))
    print(len(entries), "models,", sum(not each.is_priced for each in entries), "without a price")


def providers(read: Catalogue) -> Iterator[CatalogueEntry]:
    found = {(each.provider, each.id): completed(each) for each in read.entries if is_wanted(each)}
    for (provider, id_), entry in found.items():
        plain = found.get((provider, DATED.sub("", id_)))
        if plain is None or plain is entry or msgspec.structs.replace(plain, id=id_) != entry:
            yield entry


def is_wanted(entry: CatalogueEntry) -> bool:
    known = entry.context_window is not None or entry.is_priced
    return entry.provider in PROVIDERS and known and not LEFT_OUT.search(entry.id)


def completed(entry: CatalogueEntry) -> CatalogueEntry:
    values: dict[str, Any] = {
        "cache_seconds": next(
            (seconds for name, ids, seconds in LIFETIMES if name == entry.provider and ids.match(entry.id)),
            None,
        )
    }
    if entry.provider == "openai" and entry.context_window in WITH_ANSWER:
        values["context_window"] = WITH_ANSWER[entry.context_window]
    confirmed = confirmed_prices(entry)
    is_priced = {"input_per_million", "output_per_million"} <= confirmed
    for name in PRICES:
        if not is_priced or name not in confirmed:
            values[name] = None
    return msgspec.structs.replace(entry, **values)


def confirmed_prices(entry: CatalogueEntry) -> set[str]:
    """Which prices the second source has the same, for a short request, at an hour without a discount."""
    second: Any = importlib.import_module("genai_prices")

    def price(**used: int) -> float:
        asked = second.Usage(**used)
        at = datetime(2026, 11, 23, 2, tzinfo=UTC)
        who = PROVIDERS[entry.provider]
        found = second.calc_price(asked, entry.id, provider_id=who, genai_request_timestamp=at)
        return float(found.total_price) * 1000

    try:
        theirs = {name: price(**used) for name, used in PRICES.items()}
    except LookupError:
        return set()
    ours = {name: getattr(entry, name) for name in PRICES}
    return {name for name, value in ours.items() if value is not None and abs(value - theirs[name]) < 1e-6}


def open_models() -> Iterator[CatalogueEntry]:
    for pattern, window in OPEN.items():
        yield CatalogueEntry(id=pattern, context_window=window, origin="the model's documentation")


if __name__ == "__main__":
    main()
