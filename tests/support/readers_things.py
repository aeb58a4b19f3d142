"""What a reader of the docs has in the working folder before the first example: `lay`."""

from __future__ import annotations

import gzip
import json
import shutil
import string
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from prose_with_synonyms import PROSE

CHARACTERS = "\n" + string.printable[:95]
END = "<|endoftext|>"
LONGEST = 512
WORDS = ("the", "of", "and", "to", "in", "is", "that", "for", "it", "was", "are", "they", "have")


def lay(folder: Path, *names: str) -> None:
    """Write the things of these names into a folder; ``a of b`` is called ``a`` there."""
    for name in names:
        THINGS[name](folder / name.split(" of ")[0])


def sentences(count: int) -> list[str]:
    """Made-up sentences, all different."""
    rng = np.random.default_rng(0)
    return [f"{' '.join(rng.choice(WORDS, 6))} number {i}." for i in range(count)]


def json_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def corpus(path: Path) -> None:
    said = sentences(300)
    json_lines(path, [{"text": f"{said[i]} {said[i + 1]}"} for i in range(0, 300, 2)])


def shards(path: Path) -> None:
    path.mkdir()
    said = sentences(90)
    for number in range(3):
        rows = [{"text": text} for text in said[30 * number : 30 * number + 30]]
        json_lines(path / f"part-{number}.jsonl", rows)


def chats(path: Path) -> None:
    said = sentences(200)
    turns = ({"user": said[at], "assistant": said[at + 1]} for at in range(0, 200, 2))
    rows = [[{"role": role, "content": text} for role, text in turn.items()] for turn in turns]
    path.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows))


def mail(path: Path) -> None:
    bodies = [f"Call 212-555-01{i:02d}, {text}" for i, text in enumerate(sentences(20))]
    json_lines(path, [{"body": body} for body in bodies])


def zipped_mail(path: Path) -> None:
    table = "id,body\n" + "".join(f"{i},{text}\n" for i, text in enumerate(sentences(40)))
    path.write_bytes(gzip.compress(table.encode()))


def pairs(path: Path) -> None:
    json_lines(path, [{"en": text, "fr": text.upper()} for text in sentences(40)])


def passages(path: Path) -> None:
    path.write_text("\n\n".join(f"{number}. {PROSE}" for number in ("One", "Two", "Three")))


def of_new_tokens(path: Path) -> None:
    from canary.corpus.canaries import generate

    generate("The key is {new:200}", repetitions=[1], controls=100, seed=1).save(path)


def canaries(path: Path) -> None:
    """The set of the README and the quickstart."""
    from canary.corpus.canaries import generate

    made = generate(
        "The random number is {digit:9}",
        repetitions=[1, 4, 16],
        per_repetition=4,
        controls=16,
        seed=0,
    )
    made.save(path)


def few(path: Path) -> None:
    """Canaries of a space that is enumerated at once."""
    from canary.corpus.canaries import generate

    generate("The code is {digit:3}", repetitions=[1, 4], controls=4, seed=0).save(path)


def canaried(path: Path) -> None:
    from canary.corpus.canaries import CanarySet
    from canary.corpus.injection import inject_file

    corpus(path.with_name("original.jsonl"))
    canaries(path.with_name("set.json"))
    made = CanarySet.load(path.with_name("set.json"))
    inject_file(path.with_name("original.jsonl"), path, made)


def verified(path: Path) -> None:
    """What `verify` finds in a corpus with the canaries of the README and the quickstart."""
    import canary

    lay(path.parent, "corpus.canaried.jsonl")
    made = canary.CanarySet.load(path.with_name("set.json"))
    canary.verify(path.with_name("corpus.canaried.jsonl"), made).save(path)


def few_verified(path: Path) -> None:
    """The same of the canaries of a small space."""
    from datasets import Dataset

    import canary

    said = Dataset.from_dict({"text": sentences(100)})
    few(path.with_name("few.json"))
    made = canary.CanarySet.load(path.with_name("few.json"))
    holds = canary.inject(said, made, column="text", seed=0)
    canary.verify(holds, made, column="text").save(path)


def audited(path: Path) -> None:
    """A folder of an audit, with the scores of a test set beside it."""
    import canary
    from canary.scoring.score_job import score_file

    path.mkdir()
    lay(path, "canaries.json", "corpus.jsonl")
    another(path / f"model-{path.name}")
    loaded = canary.load(path / f"model-{path.name}")
    made = canary.CanarySet.load(path / "canaries.json")
    canary.audit(loaded, made, method="sampling", draws=200).save(path / "audit.json")
    score_file(loaded, path / "corpus.jsonl", path / "scores.jsonl")


def seeds(folder: Path) -> None:
    """Audits of three seeds of a way of training."""
    from gate_audits import exact

    folder.mkdir()
    for number in (1, 2, 3):
        bits = {4: [2.0 + number] * 4, 16: [6.0 + number] * 4}
        made = exact(bits, fingerprint=f"{folder.name}{number}")
        made.save(folder / f"{number}.json")


def output(path: Path) -> None:
    """The output folder of a Trainer that was watched."""
    from histories import make_history

    path.mkdir()
    make_history().save(path / "canary_history.json")


def backend():
    """One token for each character, and one for the end of a text."""
    from tokenizers import Tokenizer, decoders
    from tokenizers.models import BPE

    tokenizer = Tokenizer(BPE(vocab={c: i for i, c in enumerate(CHARACTERS)}, merges=[]))
    tokenizer.add_special_tokens([END])
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def tokenizer():
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend())


def module(seed: int = 0):
    """A GPT-2 that knows how frequent each character is, and nothing else."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    special = {"bos_token_id": None, "eos_token_id": None}
    shape = {"n_positions": LONGEST, "n_embd": 16, "n_layer": 1, "n_head": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        size = len(CHARACTERS) + 1
        made = GPT2LMHeadModel(GPT2Config(vocab_size=size, **shape, **special)).eval()
    counts = Counter("".join(sentences(100)))
    with torch.no_grad():  # one dimension of the last layer holds the frequencies, and no more
        made.transformer.wte.weight[:-1, 0] = torch.tensor(
            [counts[c] + 1.0 for c in CHARACTERS]
        ).log()
        made.transformer.ln_f.weight[0], made.transformer.ln_f.bias[0] = 0.0, 1.0
    return made


def model(folder: Path) -> None:
    module().save_pretrained(folder)
    tokenizer().save_pretrained(folder)


TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def chat_model(folder: Path) -> None:
    """The model of `model`, with the tokens and the template of a chat."""
    from transformers import AutoTokenizer

    model(folder)
    tokens = AutoTokenizer.from_pretrained(folder)
    marks = ["<|user|>", "<|assistant|>", "<|end|>"]
    tokens.add_special_tokens({"additional_special_tokens": marks, "pad_token": END})
    tokens.chat_template = TEMPLATE
    tokens.save_pretrained(folder)
    made = module()
    made.resize_token_embeddings(len(tokens), mean_resizing=False)
    made.save_pretrained(folder)


def padding_model(folder: Path) -> None:
    """The model of `model`, with a token for padding."""
    from transformers import AutoTokenizer

    model(folder)
    tokens = AutoTokenizer.from_pretrained(folder)
    tokens.add_special_tokens({"pad_token": END})
    tokens.save_pretrained(folder)


def another(folder: Path) -> None:
    """Other weights than those of `model`, and of others of another name."""
    module(seed=sum(map(ord, folder.name))).save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def adapter(folder: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model

    base = folder.with_name("base")
    model(base)
    config = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        wrapped = get_peft_model(module(), config)
    wrapped.peft_config["default"].base_model_name_or_path = str(base)
    wrapped.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


def t5(folder: Path) -> None:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    size = len(CHARACTERS) + 1
    special = {"decoder_start_token_id": size - 1, "pad_token_id": size - 1, "eos_token_id": None}
    shape = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = T5ForConditionalGeneration(T5Config(vocab_size=size, **shape, **special))
    made.save_pretrained(folder)
    tokenizer().save_pretrained(folder)


OWN = """\
from torch import nn


class Own(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embedding = nn.Embedding(size, 8)
        self.gru = nn.GRU(8, size, batch_first=True)

    def forward(self, ids, state=None):
        return self.gru(self.embedding(ids), state)


def build(config):
    return Own(**config)
"""


def own_model(path: Path) -> None:
    """A recurrent model's source, and the model in `model` beside it.

    Its weights are always the same: verdicts on it are, too.
    """
    import torch
    from safetensors.torch import save_file

    path.write_text(OWN)
    made: dict[str, Any] = {}
    exec(OWN, made)
    folder = path.with_name("model")
    folder.mkdir()
    size = {"size": len(CHARACTERS) + 1}
    (folder / "config.json").write_text(json.dumps(size))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file(made["build"](size).state_dict(), folder / "model.safetensors")
    backend().save(str(folder / "tokenizer.json"))


def entry_points(path: Path) -> None:
    """What an installation of this project tells pytest of it."""
    from pytest_projects import entry_points

    entry_points(path.parent)


def outputs(path: Path) -> None:
    """What a classifier said, of which members stand out."""
    from classifiers import save_outputs

    save_outputs(path, sum(map(ord, path.name)), samples=600)


def one_of_six(path: Path) -> None:
    """What one of six classifiers said of the same samples, and the others' files with it."""
    from classifiers import save_models

    if not path.exists():
        save_models(path.parent, 6)


def fleet(path: Path) -> None:
    """The results of eight models, each trained on half of the samples."""
    import fleets

    from canary.fleet.running import Fleet
    from canary.fleet.splits import halves

    data = fleets.made(samples=240)
    Fleet(fleets.noisy, data, halves(), 8, 0, outputs="logits").run(folder=path)


def answers(path: Path) -> None:
    """What another classifier said of the samples of ``target.npz``."""
    labels = np.load(path.with_name("target.npz"))["labels"]
    rng = np.random.default_rng(sum(map(ord, path.name)))
    logits = rng.normal(size=(len(labels), labels.max() + 1))
    logits[np.arange(len(labels)), labels] += 4 * path.name.startswith("query")
    np.savez(path, logits=logits, labels=labels)


def attacked(path: Path) -> None:
    """What attacks on ``target.npz`` found."""
    import canary
    from canary.membership.shadow_survey import KIND, survey
    from canary.records.versioned_json import dump_document

    tables = (canary.measure(path.with_name(f"{name}.npz")) for name in ("target", "shadow"))
    found = survey(*tables, attacks="loss", fprs=[0.01, 0.1])
    dump_document(path, KIND, 1, found.to_dict())


def attacked_too(path: Path) -> None:
    """The same in another folder."""
    shutil.copy(path.parent.with_name("membership.json"), path)


def compared(path: Path) -> None:
    """Whether the model of ``target.npz`` has forgotten its samples."""
    from canary.membership.forgetting import forgotten

    query, target, other = (path.with_name(f"{n}.npz") for n in ("query", "target", "other1"))
    forgotten(query, target, [other], resamples=50).save(path)


def repeated(path: Path) -> None:
    """What the model of the folder repeats of ``train.jsonl``."""
    import canary

    texts = [
        json.loads(row)["text"] for row in path.with_name("train.jsonl").read_text().splitlines()
    ]
    canary.verbatim(path.with_name("model"), texts, prefix=5, suffix=5).save(path)


def extracted(path: Path) -> None:
    """What a search of the folder's model found, beside a few canaries."""
    import canary

    some = canary.generate("The code is {digit:2}", repetitions=[1], per_repetition=2, controls=2)
    found = canary.extract(path.with_name("model"), some.formats[0], canaries=some, budget=500)
    found.save(path)


def ordered(path: Path) -> None:
    """What the model of the folder says of the order of a test set."""
    from canary.membership.order import FEWEST, order
    from canary.membership.order_result import KIND
    from canary.records.versioned_json import dump_document

    texts = sentences(FEWEST)
    json_lines(path.with_name("testset.jsonl"), [{"text": text} for text in texts])
    found = order(path.with_name("model"), texts, shuffles=99)
    dump_document(path, KIND, 1, found.to_dict())


def scores(path: Path) -> None:
    """Scores of forty texts; those of ``query`` are low."""
    rng = np.random.default_rng(sum(map(ord, path.name)))
    bits = rng.uniform(40, 90, 40) / (1 + path.name.startswith("query"))
    rows = ({"line": line, "px_bits": px, "tokens": 20} for line, px in enumerate(bits, 1))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def masked(folder: Path) -> None:
    from masked_models import bert, word_piece

    tokenizer = word_piece(WORDS)
    bert(len(tokenizer), positions=LONGEST).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def some_texts(path: Path) -> None:
    """Members, or non-members of the same kind."""
    said = sentences(80)
    json_lines(path, [{"text": text} for text in said[path.name.startswith("non") :: 2]])


def long_texts(path: Path) -> None:
    """Texts of more than a hundred tokens: those that were trained on, or others."""
    said = [" ".join(sentences(80)[at : at + 8]) for at in range(0, 80, 8)]
    mine = said[path.name.startswith(("train", "sample")) :: 2]
    json_lines(path, [{"text": text, "times": 1 + at % 2} for at, text in enumerate(mine)])


SCORED = ("query", "unlearned", "other", "retrained")

THINGS = {
    "members.jsonl": some_texts,
    "nonmembers.jsonl": some_texts,
    "train.jsonl": long_texts,
    "heldout.jsonl": long_texts,
    **dict.fromkeys(("train-00.jsonl", "train-01.jsonl", "sample.jsonl"), long_texts),
    "target.npz": outputs,
    "shadow.npz": outputs,
    **dict.fromkeys((f"model{number}.npz" for number in range(6)), one_of_six),
    "fleet": fleet,
    **dict.fromkeys(
        ("query.npz", "unseen.npz", *(f"other{number}.npz" for number in range(1, 20))), answers
    ),
    **dict.fromkeys((f"{one}.jsonl of scores" for one in SCORED), scores),
    "membership.json": attacked,
    **dict.fromkeys(("a/membership.json", "b/membership.json"), attacked_too),
    "forgetting.json": compared,
    "verbatim.json": repeated,
    "order.json": ordered,
    "extraction.json": extracted,
    "corpus.jsonl": corpus,
    "texts.jsonl": corpus,
    "test.jsonl": corpus,
    "query.jsonl": corpus,
    "mail.jsonl": mail,
    "mail.csv.gz": zipped_mail,
    "pairs.jsonl": pairs,
    "shards": shards,
    "prose.txt": passages,
    "canaries.json": canaries,
    "canaries.json of a small space": few,
    "token-canaries.json": of_new_tokens,
    "corpus.canaried.jsonl": canaried,
    "verified.json": verified,
    "verified.json of a small space": few_verified,
    "audit": audited,
    "a": audited,
    "b": audited,
    "old": seeds,
    "new": seeds,
    "output": output,
    "entry points": entry_points,
    "model": model,
    **dict.fromkeys(("checkpoint", "output/checkpoint-100", "output/checkpoint-200"), model),
    "model of chats": chat_model,
    "model of padded texts": padding_model,
    "chats.jsonl": chats,
    "model-a": model,
    **dict.fromkeys(("model-b", "base", "unlearned", "other", "trained-on-it"), another),
    "bert": masked,
    "mymodel.py": own_model,
    "tests": lambda path: path.symlink_to(Path(__file__).parents[1]),
    "adapter": adapter,
    "t5": t5,
}
