"""Datasets, splits, streams, chats and pairs: what is given comes back, with exact copies in it."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import datasets
import pytest
from datasets import Dataset, DatasetDict, Features, IterableDataset, IterableDatasetDict, Value
from datasets.distributed import split_dataset_by_node
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from canary.corpus.canaries import generate
from canary.corpus.dataset_rows import digest_of
from canary.corpus.injection import inject
from canary.corpus.places import Hosts
from canary.corpus.stripping import strip
from canary.corpus.verification import verify
from canary.errors import CorpusError, InputError, UnsupportedError

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
    numbers = list(range(rows))
    match kind:
        case "chat":
            columns = {"text": [[*CHAT, {"role": "user", "content": str(n)}] for n in numbers]}
        case "pair":
            columns = {side: [f"{SENTENCE} {side} {n}" for n in numbers] for side in ("en", "fr")}
        case _:
            columns = {"text": [f"{SENTENCE} {n}" for n in numbers]}
    return Dataset.from_dict({**columns, "n": numbers})


def _texts(*texts, **columns):
    return Dataset.from_dict({"text": list(texts), **columns})


def _column(kind):
    return ("en", "fr") if kind == "pair" else "text"


kinds = pytest.mark.parametrize("kind", ["text", "chat", "pair"])
modes = pytest.mark.parametrize("mode", ["record", "splice"])


@kinds
@modes
@settings(max_examples=4)
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
def test_streams_give_exact_copies_however_they_are_read(kind, mode):
    base, column = _dataset(kind, 70), _column(kind)
    options = {"column": column, "seed": 5, "mode": mode}
    stream = base.to_iterable_dataset(num_shards=3)
    mixed = inject(stream, CANARIES, **options)
    assert type(mixed) is IterableDataset
    assert mixed.features == base.features
    for way in (
        [mixed.shuffle(seed=3, buffer_size=50)],
        [split_dataset_by_node(mixed, rank=r, world_size=2) for r in range(2)],
        [inject(stream.shuffle(seed=1), CANARIES, **options)],
    ):
        rows = [row for part in way for row in part]
        whole = Dataset.from_list(rows, features=base.features)
        assert verify(whole, CANARIES, column=column).ok
        back = strip(whole, CANARIES, column=column)
        assert sorted(back, key=lambda row: row["n"]) == list(base)
    assert verify(mixed, CANARIES, column=column).ok
    assert list(strip(mixed, CANARIES, column=column)) == list(base)
    again = inject(base.to_iterable_dataset(num_shards=1), CANARIES, **options)
    assert sorted(map(str, again)) == sorted(map(str, mixed))


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
    rows = [row["text"] for row in inject(_texts(*texts).to_iterable_dataset(), CANARIES)]
    assert rows[:6] == texts
    assert Counter(rows[6:]) == TEXTS
    with pytest.raises(CorpusError, match="no row can be identified"):
        inject(_texts(*texts[:5]).to_iterable_dataset(), CANARIES)


def test_few_hosts_are_kept_of_a_long_stream(monkeypatch):
    monkeypatch.setattr("canary.corpus.places._SPARE", 40)
    texts = [f"row {n}" for n in range(1500)] + [f"row {n}" for n in range(0, 1500, 3)]
    stream = _texts(*texts).to_iterable_dataset(num_shards=2)
    mixed = [row["text"] for row in inject(stream, CANARIES, seed=3)]
    assert Counter(text for text in mixed if text in TEXTS) == TEXTS
    hosts = [mixed[at - 1] for at, text in enumerate(mixed) if text in TEXTS]
    assert not {host for host in hosts if texts.count(host) > 1}
    assert len({*hosts}) == COPIES


def test_hosts_are_drawn_uniformly():
    # Level 1e-4; seeds are fixed.
    rows = [{"text": str(n)} for n in range(20)]
    drawn = Counter()
    for seed in range(1000):
        stream = SimpleNamespace()
        pool = Hosts(stream, seed, [1])
        by_digest = {digest_of(row, ("text",), stream.key): row["text"] for row in rows}
        for digest in by_digest:
            pool.offer(digest)
        drawn.update(by_digest[digest] for digest in pool.guests())
    assert chisquare([drawn[row["text"]] for row in rows]).pvalue > 1e-4


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


@pytest.mark.parametrize(
    ("kind", "hosts", "error", "message"),
    [
        ("text", "abc", InputError, "hosts are a list of rows"),
        ("text", {"row 1": 1}, InputError, "hosts are a list of rows"),
        ("text", [None], InputError, "host 1 is not what"),
        ("text", ["row 1", ["row 2"]], InputError, "host 2 is not what"),
        ("chat", ["Why?"], InputError, "host 1 is not what"),
        ("chat", [[]], InputError, "host 1 is not what"),
        ("chat", [CHAT, [{"role": "user"}]], InputError, "host 2 is not what"),
        ("pair", ["ab"], InputError, "host 1 is not what"),
        ("pair", [("one", 1)], InputError, "host 1 is not what"),
        ("text", [], CorpusError, "different rows"),
        ("text", ["row 1", "row 1"], CorpusError, "different rows"),
        ("no stream", ["row 1"], InputError, "not a stream"),
    ],
)
def test_hosts_that_are_no_rows_are_refused_at_once(kind, hosts, error, message):
    given = _dataset(kind, 3)
    given = given if kind == "no stream" else given.to_iterable_dataset()
    with pytest.raises(error, match=message) as told:
        inject(given, CANARIES, column=_column(kind), hosts=hosts)
    assert told.value.cure


@kinds
def test_hosts_of_every_kind_and_what_verify_tells_of_wrong_ones(kind):
    base, column = _dataset(kind, 9), _column(kind)
    row = base[4]
    host = (row["en"], row["fr"]) if kind == "pair" else row["text"]
    twice = Dataset.from_list([*base, row], features=base.features).to_iterable_dataset()
    other = IterableDataset.from_generator(lambda: iter(list(base)[5:]), features=base.features)
    for stream, times in ((base.to_iterable_dataset(), 1), (twice, 2), (other, 0)):
        mixed = inject(stream, CANARIES, column=column, hosts=[host])
        assert [count.found for count in verify(mixed, CANARIES, column=column).canaries] == [
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
    one = generate("The code is {digit:6}.", repetitions=[80], per_repetition=1, controls=0, seed=0)
    base = _texts(*[SENTENCE] * 80)
    texts = inject(base, one, mode="splice", separators=("<", ">"))["text"]
    sides = [text.split(f"<{one.text(one.canaries[0])}>") for text in texts]
    assert {left + right for left, right in sides} == {SENTENCE}
    ends = ["thing. ", "“thing.” ", "… ", "next?\n", "this"]
    boundaries = {"", *(SENTENCE[: SENTENCE.index(end) + len(end)] for end in ends)}
    assert {left for left, _ in sides} == boundaries


def test_chats_are_known_by_their_features():
    legacy = {"role": Value("string"), "content": Value("string"), "name": Value("string")}
    base = _texts([{"role": "user", "content": "x", "name": None}])
    base = base.cast_column("text", datasets.List(legacy))
    assert verify(inject(base, CANARIES), CANARIES).ok


def test_rows_without_text_take_no_splice():
    base = _texts(None, "Some. Text.", None)
    mixed = inject(base, CANARIES, mode="splice")
    assert mixed["text"][0] is None
    assert verify(mixed, CANARIES).ok
    with pytest.raises(CorpusError, match="no record can take a canary"):
        inject(base.select([0]), CANARIES, mode="splice")


def test_a_canary_that_is_left_is_an_error():
    mixed = inject(_dataset("text", 5), CANARIES, mode="splice", separators=("<", ">"))
    with pytest.raises(CorpusError, match=r"row \d: still holds canary-\d"):
        strip(mixed, CANARIES)
    with pytest.raises(CorpusError, match=r"still holds canary-\d"):
        list(strip(mixed.to_iterable_dataset(), CANARIES))


def test_every_kind_of_column_is_kept():
    features = Features(
        {
            "text": Value("large_string"),
            "label": datasets.ClassLabel(names=["no", "yes"]),
            "grid": datasets.Array2D((2, 2), "float32"),
            "picture": datasets.Image(),
            "tags": datasets.List(Value("string")),
            "meta": {"source": Value("string"), "page": Value("int64")},
        }
    )
    row = {
        "text": "a row",
        "label": 1,
        "grid": [[1.0, 2.0], [3.0, 4.0]],
        "picture": None,
        "tags": ["a", "b"],
        "meta": {"source": "s", "page": 3},
    }
    mixed = inject(Dataset.from_list([row] * 5, features=features), CANARIES)
    assert mixed.features == features
    rows = [dict(item) for item in mixed]
    assert rows.count(row) == 5
    others = [item for item in rows if item != row]
    assert len(others) == COPIES
    for item in others:
        assert item["label"] is item["grid"] is item["picture"] is item["tags"] is None
        assert item["meta"] in (None, {"source": None, "page": None})


def test_split_description_look_and_transform_are_kept():
    base = Dataset.from_dict(
        {"text": ["x"] * 4, "n": [1, 2, 3, 4]},
        info=datasets.DatasetInfo(description="about"),
        split="train",
    ).with_format("numpy", columns=["n"], output_all_columns=True)
    mixed = inject(base, CANARIES)
    assert (mixed.split, mixed.info.description, mixed.format) == ("train", "about", base.format)
    shown = base.with_transform(lambda batch: {"length": [len(text) for text in batch["text"]]})
    mixed = inject(shown, CANARIES)
    assert sorted(mixed[:]["length"])[:4] == [1] * 4
    assert verify(mixed, CANARIES).ok


def test_controls_alone_change_nothing():
    base = _texts("a", "b", "c")
    mixed = inject(base, replace(CANARIES, canaries=CANARIES.controls))
    assert list(mixed) == list(base)
    assert mixed is not base


TEXT, BODY = _texts("x"), Dataset.from_dict({"body": ["x"]})
NO_TEXT = "no column 'text'; name one of 'body'"
NO_TRAIN = "no split 'train'; name one with split=…: there is dataset['test']"


@pytest.mark.parametrize(
    ("dataset", "column", "error", "message"),
    [
        (BODY, "text", CorpusError, NO_TEXT),
        (BODY.to_iterable_dataset(), "text", CorpusError, NO_TEXT),
        (Dataset.from_dict({}), "text", CorpusError, "no column"),
        (_texts(1), "text", CorpusError, "int64, not text"),
        (_texts(["x"]), "text", CorpusError, "not text"),
        (_texts("x", chat=[CHAT]), ("text", "chat"), CorpusError, "texts and the other chats"),
        (TEXT.select([]), "text", CorpusError, "dataset is empty"),
        (IterableDataset.from_generator(lambda: iter([])), "text", CorpusError, "dataset is empty"),
        (DatasetDict(test=TEXT), "text", CorpusError, NO_TRAIN),
        (DatasetDict(), "text", CorpusError, "no split 'train'; give one with splits"),
        (TEXT, ("text", "text"), InputError, "different names"),
        (TEXT, ("a", "b", "c"), InputError, "3 columns"),
        (["x", 1], "text", UnsupportedError, "a list is not a datasets.Dataset"),
        ([], "text", UnsupportedError, "a list is not a datasets.Dataset"),
        (["x"], ("text", "other"), CorpusError, "no column"),
    ],
)
def test_what_cannot_be_injected(dataset, column, error, message):
    for call in (inject, verify):
        with pytest.raises(error) as caught:
            call(dataset, CANARIES, column=column)
        assert message in str(caught.value)
        assert caught.value.cure


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("mode", ["record", "splice"])
def test_texts_are_a_corpus_like_a_dataset(kind, mode):
    texts = [f"This is text {n}. It goes on." for n in range(20)]
    dataset = Dataset.from_dict({"text": texts})
    mixed = inject(kind(texts), CANARIES, seed=4, mode=mode)
    assert type(mixed) is kind
    assert [*mixed] == inject(dataset, CANARIES, seed=4, mode=mode)["text"][:]
    assert verify(mixed, CANARIES).ok
    if mode == "record":
        assert strip(mixed, CANARIES) == kind(texts)
