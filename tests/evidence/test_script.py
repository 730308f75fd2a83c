"""Which writing system a text is in, and about how many tokens it has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.evidence import detect_script, estimate_tokens
from pointsman.vocabulary import Script


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("What is 2+2?", Script.LATIN),
        ("¿Dónde está?", Script.LATIN),
        ("Přílš žluťoučký", Script.LATIN),
        ("ｆｕｌｌ", Script.LATIN),
        ("Привет, мир", Script.CYRILLIC),
        ("Γειά σου", Script.GREEK),
        ("مرحبا", Script.ARABIC),
        ("שלום", Script.HEBREW),
        ("नमस्ते दुनिया", Script.DEVANAGARI),
        ("สวัสดี", Script.THAI),
        ("你好，世界", Script.HAN),
        ("こんにちは", Script.KANA),
        ("カタカナ", Script.KANA),
        ("안녕하세요", Script.HANGUL),
        ("Բարեւ", Script.OTHER),
        ("বাংলা", Script.OTHER),
        ("用python写快速排序算法", Script.HAN),  # 8 Han against 6 Latin
        ("用python写", Script.LATIN),
        ("", Script.NONE),
        ("1 + 1 = ?", Script.NONE),
        ("«…» 😀", Script.NONE),
        ("😀" * 5000, Script.NONE),
        ("😀" * 3 + "я" + "😀" * 500, Script.CYRILLIC),  # one letter that the sample misses
        ("x" * 10 + "汉字" * 5000, Script.HAN),
        ("я汉", Script.CYRILLIC),  # between equals the first
    ],
)
def test_detect_script(text: str, script: Script) -> None:
    assert detect_script(text) is script


@given(st.text())
def test_any_text_has_one(text: str) -> None:
    assert detect_script(text) in Script


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abc", 0), ("abcd", 1), ("汉字汉字", 3), ("éé", 1), ("😀", 1), ("\ud800a", 1)],
)
def test_tokens_are_a_quarter_of_the_utf8_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
