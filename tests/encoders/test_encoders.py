"""Both encoders: unit rows, order, independence of the batch, and honest failure without the extra."""

import numpy as np
import pytest

from pointsman.encoders import ENCODERS, load_encoder
from pointsman.errors import ConfigError, MissingExtra
from pointsman.vocabulary import Encoder

TEXTS = ["book a flight to Oslo", "reserve plane tickets for Norway", "boil an egg", "今天天气怎么样"]


@pytest.fixture(scope="module", params=sorted(ENCODERS))
def encoder(request: pytest.FixtureRequest) -> Encoder:
    loaded = load_encoder(request.param)
    assert loaded is not None
    return loaded


def test_rows_are_unit_vectors_in_the_order_of_the_texts(encoder: Encoder) -> None:
    rows = encoder.encode(TEXTS)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.array_equal(encoder.encode([TEXTS[2]])[0], rows[2])  # a text's vector ignores its neighbours


def test_related_texts_are_closer_than_unrelated_ones(encoder: Encoder) -> None:
    flight, plane, egg, _ = encoder.encode(TEXTS)
    assert flight @ plane > flight @ egg + 0.1


def test_an_empty_text_and_an_empty_list_are_legal(encoder: Encoder) -> None:
    assert np.isfinite(encoder.encode([""])).all()
    assert encoder.encode([]).shape[0] == 0


def test_a_very_long_text_is_cut_not_refused(encoder: Encoder) -> None:
    assert np.isfinite(encoder.encode(["word " * 20_000])).all()


def test_none_means_no_encoder_and_another_name_is_refused() -> None:
    assert load_encoder("none") is None
    with pytest.raises(ConfigError, match='unknown encoder "glove"'):
        load_encoder("glove")


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_a_missing_package_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtra) as caught:
        load_encoder(name)
    assert caught.value.extra == name
    assert caught.value.hint == f"pip install 'pointsman[{name}]'"
