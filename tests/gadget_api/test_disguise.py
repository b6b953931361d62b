"""What disguises a text is marked, the same in every client."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gadget_api import disguise
from gadget_api.disguise import is_disguised, marked

IDE = Path(__file__).parents[2] / "ide"
CASES = json.loads((IDE / "tests" / "disguise.json").read_text())


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_what_hides_is_marked_and_what_people_write_stays(text: str, shown: str) -> None:
    assert marked(text) == shown
    assert marked(shown) == shown
    assert is_disguised(text) is (text != shown)


def test_half_of_a_surrogate_pair_is_marked() -> None:
    assert marked("a\ud800b") == "a⟦U+D800⟧b"


@given(st.text())
def test_nothing_hidden_is_left_and_marking_twice_is_marking_once(text: str) -> None:
    shown = marked(text)
    assert marked(shown) == shown
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x1b]", shown)


@pytest.mark.parametrize("name", ["HIDDEN", "SHAPELESS", "BESIDE", "EMOJI", "JOINED", "FOREIGN", "WIDE", "SIGNS"])
def test_the_page_has_the_same_ranges(name: str) -> None:
    source = (IDE / "src" / "disguise.ts").read_text()
    table = re.search(rf"export const {name} =(.*?);", source, re.DOTALL)
    assert table is not None
    pairs = re.findall(r"(\w+)-(\w+)", table[1])
    assert [(int(first, 16), int(last, 16)) for first, last in pairs] == list(getattr(disguise, name))


def test_the_page_has_the_same_lookalikes() -> None:
    source = (IDE / "src" / "disguise.ts").read_text()
    table = re.search(r"export const LOOKALIKES =(.*?);", source, re.DOTALL)
    assert table is not None
    assert "".join(re.findall(r'"(.*?)"', table[1])) == disguise.LOOKALIKES
