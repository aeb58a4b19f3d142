"""The study of verbatim extraction in little; and that its page shows what is kept."""

from __future__ import annotations

import json
import random

import pytest
from recipe_scripts import RECIPES, modules

RECIPE = RECIPES / "verbatim"


@pytest.fixture(scope="module")
def recipe():
    with modules(RECIPE) as found:
        yield found


def made_up(_data):
    drawn = random.Random(0)
    words = ["".join(drawn.choices("abcdefgh", k=4)) for _ in range(300)]
    for _ in range(120):
        yield " ".join(drawn.choices(words, k=200))


@pytest.mark.slow
def test_what_is_repeated_comes_out_and_controls_do_not(recipe, tmp_path, monkeypatch):
    corpus, study = recipe["corpus"], recipe["study"]
    monkeypatch.setattr(corpus, "documents", made_up)
    monkeypatch.setattr(corpus, "GROUPS", {1: 30, 400: 3})
    monkeypatch.setattr(corpus, "CONTROLS", 10)
    words = ["--data", str(tmp_path), "--work", str(tmp_path / "work"), "--models", "small"]
    out = tmp_path / "results.json"
    study.main([*words, "--out", str(out)])
    found = json.loads(out.read_text())["small"]
    of = {row["copies"]: row for row in recipe["figures"].chosen(found["greedy"], prefix=64)}
    assert of[400]["value"] == 1.0
    assert of[1]["value"] == of[0]["value"] == 0.0
    first = out.read_bytes()
    study.main([*words, "--out", str(out)])  # nothing is trained or measured again
    assert out.read_bytes() == first
    assert len(first) > 1_000


def test_pieces_share_nothing_long(recipe, monkeypatch):
    corpus = recipe["corpus"]
    texts = list(made_up(None))
    signed = [f"{text} {texts[0]}" for text in texts[:5]]
    monkeypatch.setattr(corpus, "documents", lambda _: [*texts, *signed])
    monkeypatch.setattr(corpus, "GROUPS", {1: 60, 2: 5})
    monkeypatch.setattr(corpus, "CONTROLS", 10)
    made = corpus.prepare(None)
    pieces = [*(one for group in made.groups.values() for one in group), *made.controls]
    runs = set()
    for ids in made.tokenizer(pieces)["input_ids"]:
        mine = {tuple(ids[at : at + 16]) for at in range(len(ids) - 15)}
        assert len(ids) >= corpus.PIECE
        assert runs.isdisjoint(mine)
        runs |= mine
    repeated = made.texts(deduplicated=False, seed=0)
    single = made.texts(deduplicated=True, seed=0)
    assert len(repeated) == len(single) == len(set(single)) == 70


def test_the_page_shows_what_is_kept(recipe):
    figures = recipe["figures"]
    results = json.loads(figures.RESULTS.read_text(encoding="utf-8"))
    page = (RECIPE / "README.md").read_text(encoding="utf-8")
    assert figures.written(page, results) == page
