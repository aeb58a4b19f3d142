"""Kinds that callers register, and canary sets that use them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from canary.corpus.canaries import CanarySet, generate
from canary.errors import FormatError, RecordError
from canary.formats.building import from_texts, repeated
from canary.formats.format import Format
from canary.formats.kinds import KINDS, Kind, register


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """What a test registers is gone after it."""
    monkeypatch.setattr(KINDS, "_things", dict(KINDS.items()))
    return KINDS._things


def test_a_format_as_a_kind():
    register("plate", "{upper:2}-{digit:4}")
    space = Format("I drive {plate} or {plate}.")
    assert space.size == (26**2 * 10**4) ** 2
    assert space.unrank(0) == "AA-0000 or AA-0000"
    assert space.masked == "I drive ••••••• or •••••••."


def test_a_function_as_a_kind():
    def surname(argument):
        return (
            from_texts(["Ada", "Alan", "Grace"]) if argument is None else f"{{letter:{argument}}}"
        )

    register("surname", surname, example="{surname}")
    assert list(Format("{surname}")) == ["Ada", "Alan", "Grace"]
    assert Format("{surname:2}").size == 26**2


def test_a_kind_of_another_package_is_an_entry_point(monkeypatch):
    point = SimpleNamespace(
        name="coin", load=lambda: Kind("{coin}", lambda *_: from_texts(["H", "T"]))
    )
    monkeypatch.setattr("canary.registry.entry_points", lambda group: [point])
    monkeypatch.setattr(KINDS, "_complete", False)
    assert Format("{coin}{coin}").size == 4


def test_kinds_of_kinds():
    register("pin", "{digit:4}")
    register("pair", "{pin}/{pin}")
    assert Format("{pair}").size == 10**8
    register("endless", "a{endless}")
    with pytest.raises(FormatError, match="let no kind contain itself"):
        Format("{endless}")


def test_registering_again_is_the_same_or_an_error():
    def code(argument):
        return repeated("01", 8)

    register("code", code)
    register("code", code)
    with pytest.raises(FormatError, match="there is another kind"):
        register("code", "{digit:2}")
    with pytest.raises(FormatError, match="there is another kind"):
        register("digit", "{digit:2}")


@pytest.mark.parametrize("name", ["", "Plate", "9a", "a b", "a:b", "ü", "a" * 33, None])
def test_names(name):
    with pytest.raises(FormatError, match="cannot name a kind"):
        register(name, "{digit:2}")


def test_failures_of_a_kind_are_its_own():
    def broken(argument):
        raise KeyError("no such thing")

    register("broken", broken)
    register("seven", lambda argument: 7)
    register("fixed", "{digit:2}")
    register("wrong", "{digt:2}")
    cases = {
        "x {broken}": "'broken' raised KeyError",
        "{seven}": "'seven' gave int",
        "{fixed:3}": "'fixed' takes no argument",
        "{wrong}": "'digt' is not a kind of hole",
    }
    for text, problem in cases.items():
        with pytest.raises(FormatError, match=problem) as caught:
            Format(text)
        assert "column" in caught.value.where
        assert caught.value.cure


def test_a_set_with_a_registered_kind(tmp_path, registry):
    register("plate", "{upper:2}-{digit:4}")
    canaries = generate("I drive {plate}.", seed=0)
    canaries.save(tmp_path / "canaries.json")
    assert CanarySet.load(tmp_path / "canaries.json") == canaries
    del registry["plate"]
    with pytest.raises(RecordError, match="'plate' is not a kind of hole") as caught:
        CanarySet.load(tmp_path / "canaries.json")
    assert "canary.formats.kinds.register" in caught.value.cure
    register("plate", "{upper:2}-{digit:5}")
    with pytest.raises(RecordError, match="another size") as caught:
        CanarySet.load(tmp_path / "canaries.json")
    assert "formats[0]" in caught.value.where


def test_a_set_with_a_word_list_needs_nothing_else(tmp_path):
    space = Format("The words are {word:5}.", words=["ja", "nein", "doch", "ünder"])
    canaries = generate([space, "{digit:9}"], seed=0)
    assert canaries.to_dict()["formats"] == [
        {"text": space.text, "words": ["doch", "ja", "nein", "ünder"], "size": 4**5},
        "{digit:9}",
    ]
    canaries.save(tmp_path / "canaries.json")
    assert CanarySet.load(tmp_path / "canaries.json") == canaries
