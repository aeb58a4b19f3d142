"""Copies with words of their own: injected, counted, taken out, and kept by near-de-duplication."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from prose_with_synonyms import PROSE
from small_models import build

import canary
from canary.corpus.canaries import CanarySet
from canary.corpus.fuzzy import likeness
from canary.corpus.injection import inject_file
from canary.corpus.passage_sets import draw_passages, read_passages
from canary.corpus.stripping import strip_file
from canary.errors import FormatError, InputError
from canary.formats.passages import passage
from canary.scoring.run_options import RunOptions

OPEN = (
    "Once {choice:big|large|wild} dogs {open:ran|sprinted|hurried} {choice:quickly|rapidly} over "
    "{open:green|lush|wet} fields and {open:then|later|next} they {choice:slept|rested|sat} under "
    "{open:old|tall|wide} trees {open:alone|together|too}."
)


GOLDEN = (
    "Once large dogs sprinted quickly over wet fields and then they rested under tall trees too."
)


def drawn():
    return draw_passages([OPEN, "The pin is {digit:6}"], repetitions=[6, 2], controls=2, seed=3)


def corpus(path):
    rows = [json.dumps({"text": f"It is line {number}."}) + "\n" for number in range(40)]
    path.write_text("".join(rows))
    return path


def test_each_copy_has_words_of_its_own_and_the_secret_of_its_canary():
    canaries = drawn()
    texts = [canaries.written.text(c) for c in canaries.written.injected]
    mine = texts[:6]
    assert len(set(mine)) == 6
    fills = {canaries.formats[0].opened.index(c.fill) for c in canaries.written.injected[:6]}
    assert len(fills) == 6
    secret = canaries.formats[0].slots(canaries.canaries[0].fill)
    for text in mine:
        assert all(words[0] in text for words in secret if len(words) == 1)
    assert canaries.written.fingerprint == canaries.fingerprint
    again = CanarySet.from_dict(canaries.to_dict())  # the copies follow from the file alone
    assert [again.written.text(c) for c in again.written.injected] == texts
    # Drawn otherwise, the copies in a corpus would no longer be found.
    assert mine[0] == GOLDEN


@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("many", [False, True])
def test_inject_verify_and_strip_see_every_copy(tmp_path, mode, many):
    canaries, plain = drawn(), corpus(tmp_path / "plain.jsonl")
    source, mixed, back = plain, tmp_path / "mixed.jsonl", tmp_path / "back.jsonl"
    if many:
        source, mixed, back = tmp_path / "in", tmp_path / "mixed", tmp_path / "back"
        source.mkdir()
        lines = plain.read_text().splitlines(keepends=True)
        for number in range(2):
            (source / f"{number}.jsonl").write_text("".join(lines[number::2]))
    placements = inject_file(source, mixed, canaries, mode=mode, seed=1)
    assert {name: len(at) for name, at in placements.lines.items()} == {
        "canary-1": 6,
        "canary-2": 2,
    }
    assert placements.fingerprint == canaries.fingerprint
    found = canary.verify(mixed, canaries)
    assert found.ok
    assert [count.found for count in found.canaries] == [6, 0, 0, 2, 0, 0]
    assert found.fingerprint == canaries.fingerprint
    strip_file(mixed, back, canaries)
    for file in [plain] if not many else source.iterdir():
        assert (back / file.name if many else back).read_bytes() == file.read_bytes()
    rows = canary.inject(["one", "two", "three"], canaries)
    assert len(rows) == 3 + 8
    assert canary.strip(rows, canaries) == ["one", "two", "three"]


def test_a_copy_that_is_missing_is_missed_though_another_is_there_twice(tmp_path):
    canaries, mixed = drawn(), tmp_path / "mixed.jsonl"
    inject_file(corpus(tmp_path / "plain.jsonl"), mixed, canaries)
    lines = mixed.read_text().splitlines(keepends=True)
    at = [number for number, line in enumerate(lines) if "Once" in line]
    lines[at[0]] = lines[at[1]]
    mixed.write_text("".join(lines))
    found = canary.verify(mixed, canaries)
    assert not found.ok
    assert found.canaries[0].found == 5


def jaccard(one, other):
    """Of all runs of five words, by hand."""
    runs = [
        {tuple(t.lower().split()[i : i + 5]) for i in range(len(t.split()) - 4)}
        for t in (one, other)
    ]
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def test_likeness_oracle():
    space = passage(PROSE, least=2**6, fuzzy=True)
    canaries = draw_passages([space], repetitions=[12], seed=0)
    texts = [canaries.written.text(c) for c in canaries.written.injected]
    found = likeness(texts)
    assert found == max(jaccard(*pair) for pair in combinations(texts, 2))
    assert found < 0.7
    equal = draw_passages([passage(PROSE)], repetitions=[12], seed=0)
    assert len({equal.text(c) for c in equal.injected}) == 1
    assert equal.written is equal


def test_copies_that_near_deduplication_would_remove_are_refused():
    rest = " and ".join(f"they saw {number}" for number in range(30))
    with pytest.raises(FormatError, match=r"share \d+% of their runs of 5 words"):
        canary.generate(
            f"It {{choice:began|started}} at {{digit:3}} {{open:here|there}} {rest}.",
            repetitions=[2],
            seed=0,
        )
    with pytest.raises(FormatError, match="too few words for 16 different copies"):
        canary.generate("It {open:began|started} at {digit:6}.", repetitions=[16], seed=0)


def test_a_set_has_a_canary_of_each_passage_and_coins_where_asked():
    canaries = draw_passages(
        [f"It {{choice:began|started}} at {n} {{digit:4}}" for n in range(40)],
        repetitions=[2, 8], controls=1, seed=0, coin_flips=True,
    )  # fmt: skip
    tossed = {c.format: c.tossed for c in canaries if c.tossed}
    assert tossed == {number: (2, 8)[number % 2] for number in range(40)}
    assert 10 < len(canaries.injected) < 30
    with pytest.raises(InputError, match="1 passages for 2 numbers"):
        draw_passages(["pin {digit:4}"], repetitions=[1, 2])


def test_a_file_of_passages(tmp_path):
    file = tmp_path / "prose.txt"
    file.write_text(f"{PROSE}\n\n\n{PROSE.replace('company', 'firm')}\n")
    assert [space.size for space in read_passages(file)] == 2 * [passage(PROSE).size]
    for text, told in (("  \n\n", "holds no passage"), ("Too short.", "are needed")):
        file.write_text(text)
        with pytest.raises((InputError, FormatError), match=told):
            read_passages(file)
    with pytest.raises(InputError, match="cannot be read as text"):
        read_passages(tmp_path / "none.txt")


def test_batches_of_a_training_are_counted_by_canary():
    from trained import trained

    from canary.plugins.training_batches import TrainingBatches
    from canary.tokens.fast import as_tokenizer

    canaries, tokenizer = drawn(), as_tokenizer(trained("gpt2"))
    seen = TrainingBatches(canaries, tokenizer, RunOptions(start_token=None), lambda said: None)
    for copy in canaries.written.injected:
        (encoding,) = tokenizer.encode([canaries.written.text(copy)])
        for _ in range(copy.repetitions):
            seen.see(np.array([encoding.ids]))
    assert seen.whole == {"canary-1": 6, "canary-2": 2}


def test_ranks_of_a_passage_are_exact_oracle():
    """By rank and by enumeration, and with words that copies do not have at the open slots."""
    from canary.audits.auditing import audit

    text = (
        "it is {choice:big|large|vast} {open:a|b} to {choice:begin|start} {choice:now|late|soon}."
    )
    canaries = canary.generate(
        [text, "the {digit:2}"],
        repetitions=[1], per_repetition=3, controls=2, seed=0,
    )  # fmt: skip
    ranked, counted = (
        audit(build("table"), canaries, method=method, draws=50)
        for method in ("rank", "enumeration")
    )
    assert all(c.exposure.exact for c in ranked.canaries)
    assert [c.exposure.bits for c in ranked.canaries] == [c.exposure.bits for c in counted.canaries]
    assert ranked.formats[0].space_size == 18


def test_a_role_and_copies_go_together():
    canaries = draw_passages([OPEN, "The pin is {digit:6}"], repetitions=[2], seed=3, role="user")
    assert canaries.role == canaries.written.role == "user"
