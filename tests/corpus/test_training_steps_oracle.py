"""Which training step saw a canary, against a walk through all tokens one by one."""

from __future__ import annotations

import numpy as np
import pytest
from token_corpora import read_megatron, write_megatron
from trained import trained

from canary.corpus.canaries import generate
from canary.corpus.injection import inject_file
from canary.corpus.placements import Placements
from canary.corpus.training_steps import megatron_steps, steps_in_order
from canary.errors import InputError

CANARIES = generate("The code is {digit:4}.", repetitions=[1, 3], per_repetition=2, seed=0)


@pytest.mark.parametrize(("mode", "seed"), [("record", 0), ("record", 1), ("splice", 2)])
def test_as_a_walk_through_all_tokens(tmp_path, mode, seed):
    tokenizer = trained("gpt2")
    end = tokenizer.token_to_id("<s>")
    texts = [f"The {n} is red. And more words of mail number {n}." for n in range(40)]
    ids = [[[*tokenizer.encode(text, add_special_tokens=False).ids, end]] for text in texts]
    write_megatron(tmp_path / "a.bin", ids)
    target = tmp_path / "b.bin"
    inject_file(tmp_path / "a.bin", target, CANARIES, mode=mode, seed=seed, tokenizer=tokenizer)
    sequences = [document[0] for document in read_megatron(target)[0]]

    rng = np.random.default_rng(seed)
    length, batch = 17, 3
    documents = np.concatenate([rng.permutation(len(sequences)) for _ in range(2)])
    stream = [(p, o) for p, d in enumerate(documents) for o in range(len(sequences[d]))]
    number = (len(stream) - 1) // length
    samples = np.array([stream[s * length] for s in range(number + 1)])
    shuffle = rng.permutation(number)

    wanted = {canary.id: set() for canary in CANARIES.injected}
    for canary in CANARIES.injected:
        own = tokenizer.encode(CANARIES.text(canary), add_special_tokens=False).ids
        for at, (p, o) in enumerate(stream):
            if sequences[documents[p]][o : o + len(own)] != own:
                continue
            for position, sample in enumerate(shuffle):
                labels = range(sample * length + 1, (sample + 1) * length + 1)
                if any(label in labels for label in range(at, at + len(own))):
                    wanted[canary.id].add(position // batch + 1)
    indices = tuple(tmp_path / f"{name}.npy" for name in ("document", "sample", "shuffle"))
    for file, array in zip(indices, (documents, samples, shuffle), strict=True):
        np.save(file, array)
    given = {"tokenizer": tokenizer, "batch_size": batch}
    found = megatron_steps(target, CANARIES, indices=indices, **given)
    assert {name: set(steps) for name, steps in found.items()} == wanted
    assert all(wanted.values())
    for wrong in (indices[::-1], (documents + 10**6, samples, shuffle), (documents, [[1]], [0])):
        with pytest.raises(InputError, match="indices do not belong"):
            megatron_steps(target, CANARIES, indices=wrong, **given)
    with pytest.raises(InputError, match="cannot be read as an array"):
        megatron_steps(target, CANARIES, indices=(target, target, target), **given)


def test_the_order_of_a_sampler():
    rng = np.random.default_rng(0)
    lines = {"a": (3, 9), "b": (20,), "c": ()}
    order = [*rng.permutation(20), *rng.permutation(20)]
    found = steps_in_order(Placements(lines, "text", 0, 20), order, 6)
    for name, mine in lines.items():
        steps = {at // 6 + 1 for at, row in enumerate(order) if row + 1 in mine}
        assert found[name] == tuple(sorted(steps))
