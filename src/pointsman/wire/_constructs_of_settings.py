"""Settings of a request, and what becomes of each in another format: rows of ``constructs.CONSTRUCTS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.wire.fates import CHAT, MESSAGES, MOST_STOPS, RESPONSES, Construct, changed, exact, refused

__all__ = ["SETTINGS"]

_SAMPLING: Final = "left out for OpenAI's reasoning models, which take 1 alone; else as it is"
_KEPT_STOP: Final = "kept by the gateway, which cuts the answer there"
_LONG_STOP: Final = f"the stop sequences that the gateway has to keep have over {MOST_STOPS:,} characters"
_BUDGET: Final = (
    "an effort: low to 4,096 tokens, medium to 16,384, high beyond; none or minimal where thinking is "
    "switched off and the model knows the word"
)
_DROPPED: Final = 'left out and named; refused where the upstream has `unknown = "refuse"`'
_TASK: Final = "left out: nothing limits a whole task there; max_tokens holds"
_DISPLAY: Final = "left out: the upstream decides what it shows of its thinking"

SETTINGS: Final[Mapping[str, Construct]] = {
    "top_k": Construct(
        {CHAT: "top_k", MESSAGES: "top_k"},
        {CHAT: changed("left out: no such setting"), RESPONSES: changed("left out: as chat")},
    ),
    "seed": Construct(
        {CHAT: "seed"},
        {MESSAGES: changed("left out: no such setting"), RESPONSES: changed("left out: as Messages")},
    ),
    "n": Construct(
        {CHAT: "n"},
        {
            MESSAGES: refused("it gives one answer to a request"),
            RESPONSES: refused("it gives one answer to a request"),
        },
    ),
    "logprobs": Construct(
        {CHAT: "logprobs"},
        {
            MESSAGES: refused("it reports no probabilities"),
            RESPONSES: refused("probabilities of an answer are not translated"),
        },
    ),
    "top_logprobs": Construct(
        {CHAT: "top_logprobs", RESPONSES: "top_logprobs"},
        {
            CHAT: refused("probabilities of an answer are not translated"),
            RESPONSES: refused("probabilities of an answer are not translated"),
            MESSAGES: refused("it reports no probabilities"),
        },
    ),
    "penalties": Construct(
        {CHAT: "frequency_penalty"},
        {
            MESSAGES: changed("left out: no such setting"),
            RESPONSES: changed("left out: no such setting"),
        },
    ),
    "logit_bias": Construct(
        {CHAT: "logit_bias"},
        {MESSAGES: refused("it cannot weigh tokens"), RESPONSES: refused("it cannot weigh tokens")},
    ),
    "audio": Construct(
        {CHAT: "audio"},
        {MESSAGES: refused("it has no sound"), RESPONSES: refused("it has no sound")},
    ),
    "stop": Construct(
        {CHAT: "stop", MESSAGES: "stop_sequences"},
        {
            RESPONSES: changed(_KEPT_STOP),
            CHAT: changed(f"{_KEPT_STOP}: for OpenAI's reasoning models, and beyond the fourth"),
        },
    ),
    "stop_length": Construct(
        {CHAT: "stop", MESSAGES: "stop_sequences"},
        {
            CHAT: refused(_LONG_STOP),
            RESPONSES: refused(_LONG_STOP),
            MESSAGES: refused(_LONG_STOP),
        },
    ),
    "verbosity": Construct(
        {CHAT: "verbosity", RESPONSES: "text.verbosity"},
        {
            CHAT: changed("left out: most servers refuse it"),
            MESSAGES: changed("left out: no such setting"),
        },
    ),
    "thinking_budget": Construct(
        {CHAT: "thinking.budget_tokens", MESSAGES: "thinking.budget_tokens"},
        {
            CHAT: changed(_BUDGET),
            RESPONSES: changed(_BUDGET),
            MESSAGES: changed(
                "for Claude 4.7 and later, which take no budget: adaptive thinking and an effort"
            ),
        },
    ),
    "effort": Construct(
        {CHAT: "reasoning_effort", RESPONSES: "reasoning.effort", MESSAGES: "output_config.effort"},
        {
            MESSAGES: changed(
                "a thinking budget: low 2,048, medium 8,192, high and beyond 24,576 tokens, at most half of "
                "max_tokens where that is smaller; none and minimal: no thinking. Claude 4.6 and later: "
                "adaptive thinking and the same effort"
            )
        },
    ),
    "effort_max": Construct(
        {MESSAGES: "output_config.effort"},
        {
            CHAT: changed('"xhigh" and "max" are the highest effort that a model of this name knows'),
            RESPONSES: changed('"xhigh" and "max" are the highest effort that a model of this name knows'),
        },
    ),
    "user": Construct(
        {CHAT: "user", RESPONSES: "user", MESSAGES: "metadata.user_id"},
        {
            CHAT: changed("longer than 64 characters: its SHA-256 digest"),
            RESPONSES: changed("longer than 64 characters: its SHA-256 digest"),
            MESSAGES: changed("longer than 256 characters: its SHA-256 digest"),
        },
    ),
    "json_object": Construct(
        {CHAT: "response_format", RESPONSES: "text.format"},
        {MESSAGES: refused("it takes a schema, not any JSON: send json_schema")},
    ),
    "json_schema": Construct(
        {CHAT: "response_format", RESPONSES: "text.format", MESSAGES: "output_config.format"}, {}
    ),
    "stored": Construct(
        {CHAT: "store", RESPONSES: "store"},
        {
            MESSAGES: changed("left out: nothing is stored there"),
            CHAT: changed("left out: nothing is stored there"),
        },
    ),
    "previous_response": Construct(
        {RESPONSES: "previous_response_id", MESSAGES: "thread"},
        {
            CHAT: refused("the conversation is not known here"),
            RESPONSES: refused("the conversation is not known here"),
            MESSAGES: refused("the conversation is not known here"),
        },
    ),
    "background": Construct(
        {RESPONSES: "background"},
        {
            CHAT: refused("it answers at once or not at all"),
            MESSAGES: refused("it answers at once or not at all"),
        },
    ),
    "metadata": Construct(
        {CHAT: "metadata", RESPONSES: "metadata"},
        {
            CHAT: changed("left out"),
            MESSAGES: changed("left out: it takes user_id alone"),
        },
    ),
    "provider_hint": Construct(
        {CHAT: "prompt_cache_key", RESPONSES: "prompt_cache_key", MESSAGES: "speed"},
        {
            CHAT: changed("left out: it tells its own provider how to serve, not what to answer"),
            RESPONSES: changed("left out: it tells its own provider how to serve, not what to answer"),
            MESSAGES: changed("left out: it tells its own provider how to serve, not what to answer"),
        },
    ),
    "max_tokens": Construct(
        {CHAT: "max_completion_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"},
        {MESSAGES: exact("where the request names none: 16,384, or the thinking budget and 7,168 more")},
    ),
    "temperature": Construct(
        {CHAT: "temperature", RESPONSES: "temperature", MESSAGES: "temperature"},
        {
            CHAT: changed(_SAMPLING),
            RESPONSES: changed(_SAMPLING),
            MESSAGES: changed(
                "1 where it is higher, and while thinking: its range ends at 1; left out for Claude 4.7 and "
                "later, which takes none"
            ),
        },
    ),
    "top_p": Construct(
        {CHAT: "top_p", RESPONSES: "top_p", MESSAGES: "top_p"},
        {
            CHAT: changed(_SAMPLING),
            RESPONSES: changed(_SAMPLING),
            MESSAGES: changed(
                "left out beside a temperature, below 0.95 while thinking, and for Claude 4.7 and later"
            ),
        },
    ),
    "thinking_off": Construct(
        {CHAT: "reasoning_effort", RESPONSES: "reasoning.effort"},
        {MESSAGES: changed("no thinking: not with a forced tool, nor in a turn that began without it")},
    ),
    "blank_stop": Construct(
        {CHAT: "stop"},
        {
            RESPONSES: changed(_KEPT_STOP),
            MESSAGES: changed(f"one of white space alone is {_KEPT_STOP}"),
        },
    ),
    "service_tier": Construct(
        {CHAT: "service_tier", RESPONSES: "service_tier", MESSAGES: "service_tier"},
        {
            CHAT: changed("left out: its tiers are others"),
            RESPONSES: changed("left out: its tiers are others"),
            MESSAGES: changed("left out: its tiers are others"),
        },
    ),
    "prompt_template": Construct(
        {RESPONSES: "prompt"},
        {
            CHAT: refused("the template is stored at the other provider"),
            MESSAGES: refused("the template is stored at the other provider"),
        },
    ),
    "compaction": Construct(
        {MESSAGES: "compaction"},
        {
            CHAT: refused("it cannot answer with a compacted conversation"),
            RESPONSES: refused("it cannot answer with a compacted conversation"),
        },
    ),
    "context_management": Construct(
        {RESPONSES: "context_management", MESSAGES: "context_management"},
        {
            CHAT: changed("left out: the conversation is sent whole"),
            RESPONSES: changed("left out: the conversation is sent whole"),
            MESSAGES: changed("left out: the conversation is sent whole"),
        },
    ),
    "task_budget": Construct(
        {MESSAGES: "output_config.task_budget"}, {CHAT: changed(_TASK), RESPONSES: changed(_TASK)}
    ),
    "thinking_display": Construct(
        {MESSAGES: "thinking.display"}, {CHAT: changed(_DISPLAY), RESPONSES: changed(_DISPLAY)}
    ),
    "inference_geo": Construct(
        {MESSAGES: "inference_geo"},
        {
            CHAT: refused("it does not promise where it computes"),
            RESPONSES: refused("it does not promise where it computes"),
        },
    ),
    "moderation": Construct(
        {CHAT: "moderation", RESPONSES: "moderation"},
        {
            CHAT: refused("the provider of the other format moderates"),
            MESSAGES: refused("the provider of the other format moderates"),
        },
    ),
    "unknown": Construct(
        {
            CHAT: "a field we do not know",
            RESPONSES: "a field we do not know",
            MESSAGES: "a field we do not know",
        },
        {
            CHAT: changed(_DROPPED),
            RESPONSES: changed(_DROPPED),
            MESSAGES: changed(_DROPPED),
        },
    ),
}
