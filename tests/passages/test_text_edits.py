"""Coming near the text of a suffix, beside what going through all samples gives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from chains import chain_model, distance, exact_text_mass
from small_models import character_tokenizer, known
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from canary.errors import InputError
from canary.models.decoding import Scheme, drawn_probabilities
from canary.models.language_model import Context, Rows
from canary.passages.near_walk import near_mass
from canary.passages.text_edits import TextAutomaton, Vocabulary
from canary.passages.verbatim import verbatim
from canary.scoring.batcher import Batcher
from canary.tokens.fast import as_tokenizer
from canary.tokens.token_bytes import token_bytes

SCHEMES = [Scheme(), Scheme(temperature=0.7, top_k=4), Scheme(top_p=0.8), Scheme(min_p=0.1)]
WRITTEN = [b"a", b"b", b"ab", b"ba", b"aab", None]
WORDS = [b"a", b"e", b" th", b" the", b"re", b" ca", b"t", b" sat", b"on", b" on", b" mat", None]


def walked(model, suffix, edits, written, *, scheme=SCHEMES[0], width=80, seed=0):
    batcher = Batcher(model)
    logs = batcher.decoded(Rows.of([[0, *suffix.tolist()]]), [scheme]).log_probs[:, 0]
    automaton = TextAutomaton(suffix, edits, Vocabulary(written))
    with model.open(Context(np.zeros(1, np.int32)), memory_bytes=2**22) as walker:
        return near_mass(
            walker, batcher, automaton, scheme=scheme, log_probs=logs.astype(np.float64),
            width=width, rng=np.random.default_rng(seed),
        )  # fmt: skip


def begins_near(sample, text, edits, written):
    """The event, from its definition."""
    whole = b""
    for token in sample:
        if not written[token]:
            break
        whole += written[token]
    return any(distance(whole[:stop], text) <= edits for stop in range(len(whole) + 1))


@pytest.mark.parametrize("edits", range(3))
def test_the_automaton_says_of_all_samples_what_the_definition_says(edits):
    suffix, vocabulary = np.array([2, 0], np.int32), Vocabulary(WRITTEN)
    automaton = TextAutomaton(suffix, edits, vocabulary)
    assert bytes(automaton.text.tolist()) == b"aba"
    for sample in itertools.product(range(6), repeat=automaton.levels):
        true, rows, alive = begins_near(sample, b"aba", edits, WRITTEN), automaton.start, True
        for done, token in enumerate(sample, 1):
            moves = automaton.moves(rows, done)
            (same,) = np.nonzero(moves.choices == token)
            rows = automaton.entered(rows, np.array([token]), rows)
            if len(same):
                assert (moves.rows[same] == rows).all()
            at = same[0] if len(same) else -1  # of all others
            assert moves.least[at] <= automaton.least(rows, done)[0]
            assert automaton.near(rows, done)[0] <= true
            alive &= moves.least[at] <= edits
            if automaton.near(rows, done)[0]:
                break
        assert automaton.near(rows, done)[0] == true <= alive


def memorized(rng, written, length):
    """A model that has memorized a suffix none of whose tokens ends the text."""
    while True:
        model, suffix = chain_model(
            rng, length=length, vocabulary=len(written), states=4, sure=rng.uniform(0.3, 0.9)
        )
        if all(written[token] for token in suffix):
            return model, suffix


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_a_wide_walk_is_exact(scheme):
    for seed in range(2):
        model, suffix = memorized(np.random.default_rng(seed), WRITTEN, 3)
        text = b"".join(WRITTEN[token] for token in suffix)
        for edits in range(min(3, len(text))):
            found = walked(model, suffix, edits, WRITTEN, scheme=scheme, width=10**6)
            shares, truth = drawn_probabilities(model._log_probs, scheme), 0.0
            for sample in itertools.product(range(6), repeat=3 + edits):
                state, mass = 1, 1.0
                for token in sample:
                    mass, state = mass * shares[state, token], model._transitions[state, token]
                truth += mass * begins_near(sample, text, edits, WRITTEN)
            assert exact_text_mass(model, suffix, edits, WRITTEN, scheme) == pytest.approx(truth)
            assert found.mass == pytest.approx(truth, rel=1e-5)
            assert found.exact
            assert found.interval(0.95) == (found.least, found.least)


TEXT = "the cat sat on the mat, and the dog über dem Haus said naïve things twice"


@pytest.mark.parametrize("kind", ["bytes", "wordpiece", "metaspace", "characters"])
def test_what_tokens_write_is_joined_to_the_text(kind):
    if kind == "characters":
        tokenizer, text = as_tokenizer(character_tokenizer()), "0123abc"
    else:
        model, decoder, before = {
            "bytes": (models.BPE(), decoders.ByteLevel(), pre_tokenizers.ByteLevel()),
            "wordpiece": (models.WordPiece(unk_token="?"), decoders.WordPiece(),
                          pre_tokenizers.Whitespace()),
            "metaspace": (models.BPE(), decoders.Metaspace(), pre_tokenizers.Metaspace()),
        }[kind]  # fmt: skip
        backend, text = Tokenizer(model), TEXT
        backend.decoder, backend.pre_tokenizer = decoder, before
        options = {"vocab_size": 120, "special_tokens": ["?", "<end>"]}
        trainer = {"wordpiece": trainers.WordPieceTrainer}.get(kind, trainers.BpeTrainer)
        backend.train_from_iterator([TEXT] * 9, trainer(**options, show_progress=False))
        tokenizer = as_tokenizer(backend)
        assert token_bytes(tokenizer, 200)[0] is token_bytes(tokenizer, 200)[199] is None
    written = token_bytes(tokenizer, tokenizer.size)
    ids = tokenizer.encode([text])[0].ids
    joined = b"".join(written[token] for token in ids[1:])
    whole, first = tokenizer.decode(ids), tokenizer.decode(ids[:1])
    assert first.encode() + joined == whole.encode()


def test_windows_are_measured_in_characters(tmp_path):
    model, texts = known("gpt2"), ["0123456789", "fedcba98"]
    options = {"prefix": 4, "suffix": 3, "near_width": 20, "start_token": None}
    found = verbatim(model, texts, near="1c", parts=tmp_path / "parts", **options)
    assert verbatim(model, texts, near="1c", parts=tmp_path / "parts", **options) == found
    assert found.near_edits == "1 edit of characters"
    masses = np.array([mass for mass, *_ in found.texts.near])
    assert (masses >= np.exp(found.texts.log_prob(0)) * (1 - 1e-5)).all()
    assert found.extractable(tries=10**6).texts.hits >= found.rate(tries=10**6).texts.hits
    for near, message in (("30c", "30 edits of characters make no sense for a suffix with"),
                          ("c", "makes no sense for a suffix of 3 tokens"),
                          ("x", "or a number of characters such as 10c")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            verbatim(model, texts, near=near, **options)


@pytest.mark.parametrize(("length", "edits"), [(6, 2), (8, 4)])
def test_a_narrow_walk_has_no_bias_and_says_how_far_it_is_off(length, edits):
    model, suffix = memorized(np.random.default_rng(length), WORDS, length)
    truth = exact_text_mass(model, suffix, edits, WORDS)
    runs = [walked(model, suffix, edits, WORDS, width=24, seed=seed) for seed in range(30)]
    masses = np.array([run.mass for run in runs])
    spread = masses.std(ddof=1)
    assert abs(masses.mean() - truth) < 4.5 * spread / math.sqrt(len(runs))
    inside = sum(low <= truth <= high for low, high in (run.interval(0.95) for run in runs))
    assert inside >= 24  # of 30 at 95 %: fewer in one case of 2,000
