"""Model servers on this machine: which models they offer, and which wire formats they speak."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS

__all__ = ["SERVERS", "LocalModel", "LocalServer", "find_servers", "is_gateway", "window_at_ollama"]

#: Servers of models, at the ports their documentation names.
SERVERS: Final = (("ollama", 11434), ("lmstudio", 1234), ("vllm", 8000), ("llamacpp", 8080))

#: Seconds to wait for a server on this machine.
PATIENCE: Final = 0.5

#: Bytes of an answer that are read; the list of a server with a thousand models has 200 kB.
_MOST: Final = 1 << 20

#: In the ids of models that answer no chat: embeddings, rerankers, speech, pictures.
_NO_CHAT: Final = re.compile(
    r"embed|rerank|whisper|minilm|(?<![a-z])(bge|gte|e5|tts|asr|clip|siglip)(?![a-z])|stable-diffusion|flux",
    re.IGNORECASE,
)
#: Models that Ollama relays to its own service, for an account.
_ELSEWHERE: Final = re.compile(r"[-:]cloud$")
#: Billions of parameters in an id: ``8b``, ``0.6B``, ``8x7b``; not the ``4bit`` of a quantization.
_SIZE: Final = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)
#: The window that the file of an Ollama model sets.
_NUM_CTX: Final = re.compile(r"^num_ctx\s+([1-9]\d{0,8})\s*$", re.MULTILINE)

#: What a server says to a path that it does not have.
_NOT_SPOKEN: Final = frozenset({404, 405, 501})


class LocalModel(NamedTuple):
    """A model that a server offers."""

    id: str
    size: float | None = None  # billions of parameters, where they are known
    window: int | None = None  # tokens, as the server has been started


class LocalServer(NamedTuple):
    """A server that listens. Its smallest model comes first."""

    name: str
    base_url: str
    formats: tuple[str, ...]
    models: tuple[LocalModel, ...]


def find_servers(servers: Iterable[tuple[str, int]] = SERVERS) -> list[LocalServer]:
    """Return the model servers that listen on loopback and offer a model for chats."""
    found = []
    for name, port in servers:
        base_url = f"http://127.0.0.1:{port}/v1"
        if models := _models(base_url):
            found.append(LocalServer(name, base_url, _formats(base_url), models))
    return found


def is_gateway(url: str) -> bool:
    """Whether a Pointsman gateway answers at an address of this machine."""
    return "open_circuits" in _get(f"{url}/health/ready", patience=1.0)


def _models(base_url: str) -> tuple[LocalModel, ...]:
    """The models a server offers, smallest first, and those of unknown size last; none without a server."""
    listed = _get(f"{base_url}/models").get("data")
    if not isinstance(listed, list):
        return ()
    details = _details(base_url)
    models = [_model(entry, details) for entry in listed if isinstance(entry, dict) and entry.get("id")]
    chatting = [model for model in models if model is not None]
    return tuple(sorted(chatting, key=lambda model: (model.size is None, model.size or 0.0)))


def _model(entry: Mapping[str, Any], details: Mapping[str, Mapping[str, Any]]) -> LocalModel | None:
    """Properties of a model; None for one without chat, or on another machine."""
    name = str(entry["id"])
    more = details.get(name, {})
    of_ollama, meta = _object(more, "details"), _object(entry, "meta")  # meta: llama.cpp
    family = str(of_ollama.get("family", ""))
    kind = str(more.get("type", ""))  # LM Studio: llm, vlm, embeddings
    if _NO_CHAT.search(name) or _ELSEWHERE.search(name) or "bert" in family or kind.startswith("embed"):
        return None
    parameters = meta.get("n_params")
    said = str(of_ollama.get("parameter_size", ""))
    size = parameters / 1e9 if isinstance(parameters, int) else _size(said) or _size(name)
    said_of_window = (
        entry.get("max_model_len"),  # vLLM
        more.get("loaded_context_length"),  # LM Studio
        meta.get("n_ctx"),  # llama.cpp, as it has been started; older ones tell the model's own limit alone
        meta.get("n_ctx_train"),
    )
    return LocalModel(name, size, _tokens(*said_of_window))


def window_at_ollama(base_url: str, model: str) -> int | None:
    """Return the context window, in tokens, that Ollama reports for a model; None if unknown.

    That of a model in memory is what Ollama uses. Else it is ``num_ctx`` of the model's file, or the model's
    own limit, which Ollama may lower (OLLAMA_CONTEXT_LENGTH).
    """
    root = base_url.removesuffix("/v1")
    loaded = _get(f"{root}/api/ps").get("models")
    for each in loaded if isinstance(loaded, list) else ():
        if (
            isinstance(each, dict)
            and each.get("name") == model
            and (used := _tokens(each.get("context_length")))
        ):
            return used
    shown = _get(f"{root}/api/show", {"model": model})
    if set_to := _NUM_CTX.search(str(shown.get("parameters", ""))):
        return int(set_to[1])
    known = _object(shown, "model_info")
    return _tokens(*(value for name, value in known.items() if name.endswith(".context_length")))


def _tokens(*said: object) -> int | None:
    """The first that is a number of tokens."""
    return next((each for each in said if type(each) is int and each > 0), None)


def _object(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def _size(text: str) -> float | None:
    """Billions of parameters that a text names; of several the most: ``30b-a3b`` has 30."""
    return max((float(times or 1) * float(size) for times, size in _SIZE.findall(text)), default=None)


def _details(base_url: str) -> dict[str, Mapping[str, Any]]:
    """What Ollama's and LM Studio's own lists say of their models, by id."""
    root = base_url.removesuffix("/v1")
    of_ollama, of_lmstudio = _get(f"{root}/api/tags").get("models"), _get(f"{root}/api/v0/models").get("data")
    entries = [entry for listed in (of_ollama, of_lmstudio) if isinstance(listed, list) for entry in listed]
    return {str(each.get("name") or each.get("id")): each for each in entries if isinstance(each, dict)}


def _formats(base_url: str) -> tuple[str, ...]:
    """The formats a server speaks: it refuses an empty request to a path it has as wrong, not as unknown.

    Ollama speaks Responses since 0.13.3 and Messages since 0.14, llama.cpp and LM Studio speak them since the
    turn of 2026, and none reports its version in a common way.
    """
    spoken = tuple(wire.value for wire in WireFormat if _has(base_url + FORMATS[wire].path.decode()))
    return spoken or (WireFormat.CHAT.value,)


def _has(url: str) -> bool:
    """Whether a server has a path. LM Studio answers 200 with an error to one it does not have."""
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    request = urllib.request.Request(url, b"{}", {"content-type": "application/json"})  # noqa: S310 - loopback
    try:
        with _opener().open(request, timeout=PATIENCE):
            return False
    except urllib.error.HTTPError as error:
        with error:
            return error.code not in _NOT_SPOKEN
    except (OSError, HTTPException):
        return False


def _get(url: str, body: Mapping[str, str] | None = None, patience: float | None = None) -> dict[str, Any]:
    """The JSON object at an address; an empty one otherwise. A body is posted."""
    import urllib.request
    from http.client import HTTPException

    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})  # noqa: S310 - loopback
    try:
        with _opener().open(request, timeout=patience or PATIENCE) as answer:
            found = json.loads(answer.read(_MOST))
    except (OSError, ValueError, RecursionError, HTTPException):  # nothing there, or something else
        return {}
    return found if isinstance(found, dict) else {}


def _opener() -> Any:
    import urllib.request

    return urllib.request.build_opener(urllib.request.ProxyHandler({}))  # this machine, whatever the proxy
