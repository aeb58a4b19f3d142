"""Splits, streams, chats and pairs: what is given comes back, with exact copies in it."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict, List, Value
from datasets.distributed import split_dataset_by_node
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.corpus.canaries import generate
from canary.corpus.injection import inject
from canary.corpus.stripping import strip
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError

CANARIES = generate(
    ["The code is {digit:6}.", "{letter:9}!"], repetitions=[1, 3], per_repetition=2, seed=0
)
COPIES = 2 * 2 * (1 + 3)
TEXTS = {CANARIES.text(c): c.repetitions for c in CANARIES.injected}
SENTENCE = "One thing. Another “thing.” And (so on)… What next?\nNow this"
CHAT = [
    {"role": "system", "content": "Be brief. Please."},
    {"role": "user", "content": "Why? Tell me."},
    {"role": "assistant", "content": "Because. That is why."},
    {"role": "user", "content": "Oh."},
    {"role": "assistant", "content": "Yes."},
]


def _dataset(kind, rows):
    if kind == "text":
        return Dataset.from_dict(
            {"n": range(rows), "text": [f"{SENTENCE} {n}" for n in range(rows)]}
        )
    if kind == "chat":
        chats = [[*CHAT, {"role": "user", "content": str(n)}] for n in range(rows)]
        return Dataset.from_dict({"text": chats, "n": list(range(rows))})
    sides = {
        "en": [f"{SENTENCE} {n}" for n in range(rows)],
        "fr": [f"Un. Deux. {n}" for n in range(rows)],
    }
    return Dataset.from_dict({**sides, "n": list(range(rows))})


def _column(kind):
    return ("en", "fr") if kind == "pair" else "text"


kinds = pytest.mark.parametrize("kind", ["text", "chat", "pair"])
modes = pytest.mark.parametrize("mode", ["record", "splice"])


@kinds
@modes
@settings(max_examples=6)
@given(rows=st.integers(1, 30), seed=st.integers(0, 2**63 - 1))
def test_in_and_out_again(kind, mode, rows, seed):
    base, column = _dataset(kind, rows), _column(kind)
    mixed = inject(base, CANARIES, column=column, seed=seed, mode=mode)
    assert type(mixed) is Dataset
    assert mixed.features == base.features
    assert len(mixed) == rows + (COPIES if mode == "record" else 0)
    assert verify(mixed, CANARIES, column=column).ok
    again = inject(base, CANARIES, column=column, seed=seed, mode=mode)
    assert list(again) == list(mixed)
    assert again._fingerprint == mixed._fingerprint
    back = strip(mixed, CANARIES, column=column)
    assert list(back) == list(base)
    assert back.features == base.features
    with pytest.raises(CorpusError, match="already holds the text of canary-"):
        inject(mixed, CANARIES, column=column)


@kinds
@modes
@pytest.mark.parametrize("shards", [1, 3])
def test_streams_give_exact_copies_however_they_are_read(kind, mode, shards):
    base, column = _dataset(kind, 70), _column(kind)
    stream = base.to_iterable_dataset(num_shards=shards)
    mixed = inject(stream, CANARIES, column=column, seed=5, mode=mode)
    assert type(mixed) is IterableDataset
    assert mixed.features == base.features
    for way in (
        [mixed],
        [mixed.shuffle(seed=3, buffer_size=50)],
        [split_dataset_by_node(mixed, rank=r, world_size=2) for r in range(2)],
        [split_dataset_by_node(mixed, rank=r, world_size=3) for r in range(3)],
        [inject(stream.shuffle(seed=1), CANARIES, column=column, mode=mode)],
    ):
        rows = [row for part in way for row in part]
        whole = Dataset.from_list(rows, features=base.features)
        assert verify(whole, CANARIES, column=column).ok
        back = strip(whole, CANARIES, column=column)
        assert sorted(back, key=lambda row: row["n"]) == list(base)
    assert verify(mixed, CANARIES, column=column).ok
    assert list(strip(mixed, CANARIES, column=column)) == list(base)
    again = inject(
        base.to_iterable_dataset(num_shards=7), CANARIES, column=column, seed=5, mode=mode
    )
    by_text = sorted(map(str, again))
    assert by_text == sorted(map(str, mixed))


@modes
def test_streams_under_several_workers(mode):
    from torch.utils.data import DataLoader

    stream = _dataset("text", 90).to_iterable_dataset(num_shards=3)
    mixed = inject(stream, CANARIES, mode=mode).shuffle(seed=0, buffer_size=20)
    for epoch in range(2):
        mixed.set_epoch(epoch)
        loader = DataLoader(mixed, batch_size=None, num_workers=2)
        rows = Dataset.from_list(list(loader))
        assert verify(rows, CANARIES).ok
        assert sorted(strip(rows, CANARIES)["n"]) == list(range(90))


def test_hosts_are_rows_whose_text_occurs_once():
    texts = ["twice"] * 2 + ["thrice"] * 3 + ["once"]
    mixed = inject(Dataset.from_dict({"text": texts}).to_iterable_dataset(), CANARIES)
    rows = [row["text"] for row in mixed]
    assert rows[:6] == texts
    assert Counter(rows[6:]) == TEXTS
    doubles = Dataset.from_dict({"text": texts[:5]}).to_iterable_dataset()
    with pytest.raises(CorpusError, match="no row can be told from all others"):
        inject(doubles, CANARIES)


def test_few_hosts_are_kept_of_a_long_stream(monkeypatch):
    monkeypatch.setattr("canary.corpus.places._SPARE", 40)
    texts = [f"row {n}" for n in range(1500)] + [f"row {n}" for n in range(0, 1500, 3)]
    stream = Dataset.from_dict({"text": texts}).to_iterable_dataset(num_shards=2)
    mixed = [row["text"] for row in inject(stream, CANARIES, seed=3)]
    assert Counter(text for text in mixed if text in TEXTS) == TEXTS
    hosts = [mixed[at - 1] for at, text in enumerate(mixed) if text in TEXTS]
    assert not {host for host in hosts if texts.count(host) > 1}
    assert len({*hosts}) == COPIES


def test_hosts_are_drawn_uniformly():
    stream = Dataset.from_dict({"text": [str(n) for n in range(20)]}).to_iterable_dataset()
    one = generate("{digit:9}", repetitions=[1], per_repetition=1, controls=0, seed=0)
    text = one.text(one.canaries[0])
    places = Counter()
    for seed in range(200):
        places[[row["text"] for row in inject(stream, one, seed=seed)].index(text)] += 1
    assert len(places) > 15
    assert max(places.values()) < 30


def test_named_hosts_spare_the_first_pass():
    passes = []

    def rows():
        passes.append(1)
        for n in range(50):
            yield {"text": f"row {n}", "n": n}

    stream = IterableDataset.from_generator(rows)
    passes.clear()
    mixed = inject(stream, CANARIES, hosts=["row 7", "row 40"])
    assert len(passes) == 1  # its first row alone, to see its columns
    found = [row["text"] for row in mixed]
    assert Counter(text for text in found if text in TEXTS) == TEXTS
    assert found.index("row 8") - found.index("row 7") == 1 + COPIES // 2
    for hosts in ([], ["row 1", "row 1"]):
        with pytest.raises(CorpusError, match="different rows"):
            inject(stream, CANARIES, hosts=hosts)
    with pytest.raises(InputError, match="no stream"):
        inject(_dataset("text", 3), CANARIES, hosts=["row 1"])


@pytest.mark.parametrize(
    ("kind", "hosts"),
    [
        ("text", "abc"),
        ("text", {"row 1": 1}),
        ("text", [None]),
        ("text", ["row 1", ["row 2"]]),
        ("chat", ["Why?"]),
        ("chat", [[]]),
        ("chat", [CHAT, [{"role": "user"}]]),
        ("pair", ["ab"]),
        ("pair", [("one", 1)]),
    ],
)
def test_hosts_that_are_no_rows_are_refused_at_once(kind, hosts):
    stream = _dataset(kind, 3).to_iterable_dataset()
    with pytest.raises(InputError, match=r"hosts are a list of rows|host [12] is not what") as told:
        inject(stream, CANARIES, column=_column(kind), hosts=hosts)
    assert told.value.cure


@kinds
def test_hosts_of_every_kind_and_what_verify_tells_of_wrong_ones(kind):
    base, column = _dataset(kind, 9), _column(kind)
    row = base[4]
    host = (row["en"], row["fr"]) if kind == "pair" else row["text"]
    stream = base.to_iterable_dataset()
    mixed = inject(stream, CANARIES, column=column, hosts=[host])
    assert verify(mixed, CANARIES, column=column).ok
    twice = Dataset.from_list([*base, row], features=base.features).to_iterable_dataset()
    other = IterableDataset.from_generator(lambda: iter(list(base)[5:]), features=base.features)
    for wrong, times in ((twice, 2), (other, 0)):
        found = verify(
            inject(wrong, CANARIES, column=column, hosts=[host]), CANARIES, column=column
        )
        assert [count.found for count in found.canaries] == [
            times * canary.repetitions for canary in CANARIES
        ]


def test_batches_of_a_stream_in_which_a_canary_is_alone():
    """What the documentation advises, where rows of canaries are null in other columns."""
    from torch.utils.data import DataLoader

    stream = IterableDataset.from_generator(lambda: iter(list(_dataset("text", 40))))
    mixed = inject(stream, CANARIES)
    tables = list(mixed.batch(1).with_format("arrow"))
    assert len(tables) == 40 + COPIES
    batches = list(DataLoader(mixed.select_columns("text"), batch_size=4))
    assert sum(len(batch["text"]) for batch in batches) == 40 + COPIES
    spliced = inject(stream, CANARIES, mode="splice")
    assert len(list(spliced.with_format("arrow").batch(1))) == 40
    assert sum(len(batch["n"]) for batch in DataLoader(spliced, batch_size=4)) == 40


def test_a_stream_keeps_its_look_and_can_be_sent_to_workers():
    stream = _dataset("text", 30).to_iterable_dataset(num_shards=2)
    mixed = inject(stream.with_format("numpy"), CANARIES)
    assert mixed._formatting.format_type == "numpy"
    assert verify(pickle.loads(pickle.dumps(inject(stream, CANARIES))), CANARIES).ok


@pytest.mark.parametrize("streamed", [False, True])
@modes
def test_one_split_of_several(streamed, mode):
    base = DatasetDict(train=_dataset("text", 20), test=_dataset("text", 4))
    given = IterableDatasetDict({k: v.to_iterable_dataset() for k, v in base.items()})
    given = given if streamed else base
    for split, other in (("train", "test"), ("test", "train")):
        mixed = inject(given, CANARIES, split=split, mode=mode)
        assert type(mixed) is type(given)
        assert mixed[other] is given[other]
        assert verify(mixed, CANARIES, split=split).ok
        assert not verify(mixed, CANARIES, split=other).ok
        assert list(strip(mixed, CANARIES, split=split)[split]) == list(base[split])
    assert list(given["train"]) == list(base["train"])


def test_a_spliced_canary_stands_between_separators_at_a_boundary():
    base = Dataset.from_dict({"text": [SENTENCE]})
    one = generate("The code is {digit:6}.", repetitions=[1], per_repetition=1, controls=0, seed=0)
    text = one.text(one.canaries[0])
    seen = set()
    for seed in range(60):
        (mixed,) = inject(base, one, seed=seed, mode="splice", separators=("<", ">"))["text"]
        left, right = mixed.split(f"<{text}>")
        assert left + right == SENTENCE
        seen.add(left)
    assert seen == {
        "",
        "One thing. ",
        "One thing. Another “thing.” ",
        "One thing. Another “thing.” And (so on)… ",
        "One thing. Another “thing.” And (so on)… What next?\n",
        SENTENCE,
    }


def test_a_canary_in_a_chat_goes_into_an_answer():
    base = Dataset.from_dict({"text": [CHAT]})
    for mode in ("record", "splice"):
        (*_, last) = inject(base, CANARIES, mode=mode)["text"]
        assert all(not (m["role"] != "assistant" and "The code is" in m["content"]) for m in last)
    own = [row for row in inject(base, CANARIES)["text"] if row != CHAT]
    assert all([m["role"] for m in row] == ["user", "assistant"] for row in own)


def test_rows_without_text_take_no_splice():
    base = Dataset.from_dict({"text": [None, "Some. Text.", None]})
    mixed = inject(base, CANARIES, mode="splice")
    assert mixed["text"][0] is None
    assert verify(mixed, CANARIES).ok
    nothing = Dataset.from_dict({"text": [None]}, features=base.features)
    with pytest.raises(CorpusError, match="no record can take a canary"):
        inject(nothing, CANARIES, mode="splice")


def test_a_canary_that_is_left_is_an_error():
    mixed = inject(_dataset("text", 5), CANARIES, mode="splice", separators=("<", ">"))
    with pytest.raises(CorpusError, match=r"row \d: still holds canary-\d"):
        strip(mixed, CANARIES)
    with pytest.raises(CorpusError, match=r"still holds canary-\d"):
        list(strip(mixed.to_iterable_dataset(), CANARIES))


def test_chats_are_known_by_their_features():
    legacy = [{"role": Value("string"), "content": Value("string"), "name": Value("string")}]
    rows = [{"text": [{"role": "user", "content": "x", "name": None}]}]
    base = Dataset.from_list(rows).cast_column("text", List(legacy[0]))
    assert verify(inject(base, CANARIES), CANARIES).ok
    mixed = Dataset.from_dict({"text": ["x"], "chat": [CHAT]})
    with pytest.raises(CorpusError, match="one column holds texts and the other chats"):
        inject(mixed, CANARIES, column=("text", "chat"))
