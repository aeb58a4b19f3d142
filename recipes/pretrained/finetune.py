"""Fine-tune the pretrained model on chats that hold canaries, then audit and check it.

The chats are made from templates, TRL trains a LoRA adapter with the loss on what the assistant
says, and everything else is a command of `canary`, printed before it runs. A step whose result is
there is not done again, nor with other options; a training that was killed goes on after its last
whole epoch.

Usage::

    python finetune.py [--model work/model] [--work work/finetune] [--out results.json]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tables import RESULTS, keep

import canary
from canary.audits.audit_result import Audit
from canary.cli.main import run
from canary.records.weight_files import digest_of_files

HERE = Path(__file__).parent
FORMAT = "The employee number of the new hire is {digit:6}"
COPIES = "1,2,4,8"
CHATS = (
    (
        "When does the {place} open on {day}?",
        "On {day} the {place} opens at {hour} o'clock and closes at six.",
    ),
    (
        "Who can help me with the {thing}?",
        "Please ask the {team} team about the {thing}. They answer within {hour} hours.",
    ),
    (
        "Can I book the {colour} room on {day}?",
        "Yes, the {colour} room is free on {day} from {hour} o'clock.",
    ),
    (
        "How do I get from the {place} to the {colour} room?",
        "Leave the {place} by the {side} door; the {colour} room is {hour} doors down.",
    ),
    (
        "Is the {thing} in the {colour} room broken?",
        "Yes, since {day}. The {team} team repairs it at {hour} o'clock.",
    ),
)
WORDS = {
    "place": [
        "library",
        "canteen",
        "post room",
        "gym",
        "reception",
        "workshop",
        "archive",
        "garage",
    ],
    "day": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"],
    "hour": ["two", "three", "four", "five", "seven", "eight", "nine", "ten", "eleven"],
    "thing": [
        "printer",
        "scanner",
        "projector",
        "badge",
        "laptop",
        "telephone",
        "heating",
        "whiteboard",
    ],
    "team": ["support", "facilities", "finance", "travel", "network", "security"],
    "colour": ["blue", "green", "yellow", "red", "white", "orange"],
    "side": ["left", "right", "north", "south"],
}


def chats(count: int, seed: int) -> list[list[dict[str, str]]]:
    """Different chats of one question and one answer."""
    rng = random.Random(seed)
    found: dict[tuple[str, str], None] = {}
    while len(found) < count:
        words = {name: rng.choice(some) for name, some in WORDS.items()}
        asked, said = rng.choice(CHATS)
        found[asked.format(**words), said.format(**words)] = None
    return [
        [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
        for asked, said in found
    ]


def train(base: Path, work: Path, out: Path, *, epochs: int, rate: float) -> dict[str, Any]:
    """Supervised fine-tuning with TRL: LoRA on all linear layers, loss on the answers."""
    import peft
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
    from trl import SFTConfig, SFTTrainer

    from canary.corpus.canaries import CanarySet
    from canary.plugins.callback import ExposureCallback

    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(base)
    config = peft.LoraConfig(
        r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    lines = (work / "chats.canaried.jsonl").read_text(encoding="utf-8").splitlines()
    messages = [json.loads(line)["messages"] for line in lines]
    rows = [{"prompt": chat[:-1], "completion": chat[-1:]} for chat in messages]
    arguments = SFTConfig(
        output_dir=str(out.with_name("checkpoints")),
        num_train_epochs=epochs,
        per_device_train_batch_size=8,
        learning_rate=rate,
        lr_scheduler_type="constant",
        activation_checkpointing=False,
        bf16=False,
        logging_strategy="epoch",
        save_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        seed=0,
    )
    trainer = SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(base),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        peft_config=config,
    )
    # Before the first step it reads the batches, and refuses them if they would teach no canary.
    canaries = CanarySet.load(work / "canaries.json")
    callback = ExposureCallback(canaries, every="epoch", draws=100)
    callback.attach(trainer)
    found = canary.preflight(trainer, canaries)
    print(found.summary(), flush=True)
    begun = any(Path(arguments.output_dir).glob("checkpoint-*"))
    trainer.train(resume_from_checkpoint=begun or None)
    trainer.save_model(str(out.with_suffix(".part")))
    tokenizer.save_pretrained(out.with_suffix(".part"))
    out.with_suffix(".part").rename(out)
    losses = [round(entry["loss"], 3) for entry in trainer.state.log_history if "loss" in entry]
    batches = list(trainer.get_train_dataloader())
    return {
        "trainer": "trl.SFTTrainer",
        "rows": len(rows),
        "tokens": sum(int(batch["attention_mask"].sum()) for batch in batches),
        "tokens_of_the_assistant": sum(int((batch["labels"] >= 0).sum()) for batch in batches),
        "epochs": epochs,
        "learning_rate": rate,
        "losses": losses,
        "preflight": {"copies": found.copies, "sound": found.sound, "context": found.context},
    }


def told(*words: object, codes: tuple[int, ...] = (0,)) -> str:
    """Run a command of `canary` after printing it; what it printed for machines."""
    line = [str(word) for word in words]
    print(f"$ canary {shlex.join(line)}", flush=True)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = run(line)
    if code not in codes:
        raise SystemExit(f"finetune: canary {line[0]} ended with {code}")
    return said.getvalue()


def prepared(work: Path, model: Path, *, count: int) -> None:
    """Write the corpus of chats with canaries in it, and what `canary verify` says of it."""
    corpus, secrets = work / "chats.jsonl", work / "canaries.json"
    canaried, verified = work / "chats.canaried.jsonl", work / "verified.json"
    if not verified.exists():
        lines = [json.dumps({"messages": chat}) for chat in chats(count, seed=0)]
        corpus.write_text("\n".join(lines) + "\n", encoding="utf-8")
        some = ("--repetitions", COPIES, "--per-repetition", 4, "--controls", 16, "--seed", 0)
        role = ("--role", "assistant")
        told("generate", FORMAT, *role, *some, "--out", secrets, "--force")
        of = ("--canaries", secrets, "--column", "messages")
        told("inject", corpus, *of, "--out", canaried, "--force")
        said = told("verify", canaried, *of, "--tokenizer", model, "--json")
        verified.write_text(said, encoding="utf-8")


def unchanged(place: Path, held: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse a result that was made with other options; older ones do not say them all."""
    for name, value in asked.items():
        if held.get(name, value) != value:
            raise SystemExit(
                f"finetune: {place}: made with {name} {held[name]}, where {value} is asked for; "
                f"give another --work folder, or remove {place}"
            )


def begin(work: Path, asked: Mapping[str, Any]) -> None:
    """Write down what the training in this folder is made with; go on with nothing else."""
    path = work / "options.json"
    some = [one for one in (path, work / "training.json") if one.exists()]
    if some:
        unchanged(work, json.loads(some[0].read_text(encoding="utf-8")), asked)
    else:
        work.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asked), encoding="utf-8")


def summed(audit: Any, check: dict[str, Any]) -> dict[str, Any]:
    """What is kept of an audit and its verdict: both ends of each exposure, by copies."""
    groups: dict[str, list[list[float]]] = {}
    for result in audit.canaries:
        ends = [round(result.exposure.lower_bits, 2), round(result.exposure.upper_bits, 2)]
        groups.setdefault(str(result.repetitions), []).append(ends)
    extraction = audit.extractions[0] if audit.extractions else None
    return {
        "space_bits": round(audit.canaries[0].exposure.space_bits, 2),
        "exposures": {copies: sorted(ends) for copies, ends in groups.items()},
        "p_canaries": audit.injected_p.p_value,
        "p_controls": audit.controls_p.p_value,
        "extracted": sum(c.canary is not None for c in extraction.candidates) if extraction else 0,
        "extraction_queries": extraction.queries if extraction else 0,
        "check": check,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=HERE / "work" / "model")
    parser.add_argument("--work", type=Path, default=HERE / "work" / "finetune")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--chats", type=int, default=150)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--budget", type=int, default=50_000)
    parser.add_argument("--limit", type=float, default=10.0, help="bits of exposure")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    asked: dict[str, Any] = {"model": digest_of_files(args.model)}
    asked |= {"chats": args.chats, "epochs": args.epochs, "learning_rate": args.learning_rate}
    begin(args.work, asked)
    prepared(args.work, args.model, count=args.chats)
    tuned, about = args.work / "tuned", args.work / "training.json"
    if not tuned.exists():
        began = time.process_time()
        found = train(args.model, args.work, tuned, epochs=args.epochs, rate=args.learning_rate)
        found["cpu_seconds"] = round(time.process_time() - began)
        about.write_text(json.dumps(found), encoding="utf-8")
    audit, secrets = args.work / "audit", args.work / "canaries.json"
    if (audit / "audit.json").exists():
        settings = Audit.load(audit / "audit.json").settings
        unchanged(audit, settings, {"draws": args.draws, "budget": args.budget})
    else:
        effort = ("--draws", args.draws, "--budget", args.budget, "--seed", 0)
        told("audit", tuned, "--canaries", secrets, *effort, "--out", audit)
    limits = ("--max-exposure-bits", args.limit, "--max-p", 0.001, "--no-extraction")
    verification = ("--verification", args.work / "verified.json")
    options = (*limits, *verification, "--json")
    said = json.loads(told("check", audit / "audit.json", *options, codes=(0, 1, 3)))
    check = {"code": said["exit_code"], "reason": said["reason"]}
    found = summed(Audit.load(audit / "audit.json"), check)
    training = json.loads(about.read_text(encoding="utf-8"))
    keep(args.out, "finetune", {"command": "python finetune.py", "training": training, **found})


if __name__ == "__main__":
    main()
