"""With a tokenizer: does each copy still have the tokens under which it will be scored?"""

from __future__ import annotations

import pytest
from corpora import write_corpus
from datasets import Dataset
from trained import trained

from canary.corpus.canaries import generate
from canary.corpus.injection import inject, inject_file
from canary.corpus.verification import verify
from canary.errors import UnsupportedError
from canary.tokens.tokenizer import Encoding

CANARIES = generate("code is {digit:6}.", repetitions=[1, 3], per_repetition=2, seed=0)
BASE = Dataset.from_dict({"text": [f"It is so. The row {n} is. Not?" for n in range(50)]})


# As GPT-2 splits; and as SentencePiece: a space is part of the word behind it, the first word too.
BYTES, SPACES = trained("gpt2"), trained("sentencepiece bpe")


@pytest.mark.parametrize("tokenizer", [BYTES, SPACES], ids=["byte", "space"])
def test_records_of_their_own_have_their_tokens(tokenizer):
    result = verify(inject(BASE, CANARIES), CANARIES, tokenizer=tokenizer)
    assert result.ok
    assert [c.intact for c in result.canaries] == [c.repetitions for c in CANARIES]
    told = (
        "4 canaries (8 copies) found, each with its own tokens; 16 controls absent\n"
        "all 8 copies begin their text"
    )
    assert told in result.summary()


@pytest.mark.parametrize(
    ("tokenizer", "separators", "context", "good"),
    [
        (BYTES, ("\n", " "), "", True),
        (BYTES, ("\n", " "), "\n", True),
        # " code" is one token there, and at the start of a text it is "code".
        (BYTES, (" ", " "), "", False),
        (BYTES, (" ", " "), " ", True),
        # The full stop and the one that follows are one pre-token, and may be one token.
        (BYTES, ("\n", "."), "", True),
        (SPACES, ("\n", " "), "", False),
        (SPACES, ("\n", " "), "\n", True),
        (SPACES, (".", " "), "", False),
    ],
)
def test_spliced_copies(tokenizer, separators, context, good):
    mixed = inject(BASE, CANARIES, mode="splice", separators=separators)
    result = verify(mixed, CANARIES, tokenizer=tokenizer, context=context)
    assert all(c.found == c.expected for c in result.canaries)
    assert result.ok is good
    if not good:
        assert [c.intact for c in result.canaries] == [0] * len(CANARIES)
        lines = result.summary().splitlines()
        assert lines[0].endswith("4 found with other tokens than their own")
        assert lines[1] == "  canary-1  expected 1, found 1, 0 with its own tokens"


def test_text_that_was_glued_to_a_copy_is_seen():
    texts = [CANARIES.text(c) for c in CANARIES.injected for _ in range(c.repetitions)]
    glued = Dataset.from_dict({"text": [" " + texts[0], *texts[1:]]})
    result = verify(glued, CANARIES, tokenizer=BYTES)
    assert [c.id for c in result.departures] == ["canary-1"]
    counts = {"expected": 1, "found": 1, "intact": 0, "longer": 0}
    assert result.to_dict()["canaries"][0] == {"id": "canary-1", **counts}


def test_in_files(tmp_path):
    source, target = write_corpus(tmp_path / "in.txt", BASE["text"]), tmp_path / "out.txt"
    places = inject_file(source, target, CANARIES, mode="splice").to_dict()
    before, after = places["separators"]
    assert (places["mode"], after) == ("splice", " ")
    assert verify(target, CANARIES, tokenizer=BYTES, context=before).ok


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_in_chats_and_pairs(mode):
    chat = [{"role": "user", "content": "So?"}, {"role": "assistant", "content": "So. It is."}]
    chats = Dataset.from_dict({"text": [chat] * 9})
    pairs = Dataset.from_dict({"a": ["It is. So"] * 9, "b": ["The. Row"] * 9})
    for base, column in ((chats, "text"), (pairs, ("a", "b"))):
        mixed = inject(base, CANARIES, column=column, mode=mode)
        assert verify(mixed, CANARIES, column=column, tokenizer=BYTES).ok
    one_side = pairs.add_column("c", ["x" + CANARIES.text(CANARIES.canaries[0])] * 9)
    counts = verify(one_side, CANARIES, column=("a", "c"), tokenizer=BYTES).canaries
    assert (counts[0].found, counts[0].intact) == (0, 0)


def test_a_tokenizer_without_spans_is_refused():
    class Blind:
        size = 300

        def encode(self, texts):
            return [Encoding(tuple(text.encode()), None) for text in texts]

        def decode(self, ids):
            return bytes(ids).decode()

    with pytest.raises(UnsupportedError, match="which characters"):
        verify(inject(BASE, CANARIES), CANARIES, tokenizer=Blind())
