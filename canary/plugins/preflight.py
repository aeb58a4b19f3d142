"""Will a training learn its canaries? Asked of its own batches, before the first step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Unpack

from canary.corpus.canaries import CanarySet, canary_set
from canary.corpus.causes import CHANGED
from canary.errors import InputError
from canary.models.experiments import Finding, fine, noted, refused, unchecked
from canary.plugins.epoch_reading import NEARLY_ALL, EpochReading
from canary.plugins.live import undisturbed
from canary.plugins.training_batches import IGNORED, WITHIN
from canary.plugins.training_settings import learning_rate, long_enough, spread, trains
from canary.records.progress import shows_progress
from canary.records.record import Record
from canary.records.sealing import sealed
from canary.records.validation import AUTO, built, named_start, whole_number
from canary.scoring.run_options import Running, RunOptions
from canary.statistics.numbers import Shown, clean, count, plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.fast import as_tokenizer
from canary.tokens.starts import shown_start

_ASSUMED = "what is before the canaries is what the audit will assume"
_UNLEARNED = "the training would not learn the canaries as planned"
_LONGER = "raise the length limit (max_length), shorten what is before the canaries, or pack \
without splitting texts"
_JOINED = (
    "if it is the same, text was joined to the canaries before tokenization (such as a space): put "
    "a line break between"
)
_SHOWN = 5  # canaries that a finding names
_MOST = 0.75  # of the copies: what packing end to end leaves whole, or more


@dataclass(frozen=True, repr=False)
class Preflight(Shown, Record, written=("sound", ...)):
    """What the batches of a training hold of a canary set.

    Parameters
    ----------
    batches : int
        Batches that were read.
    complete : bool
        Whether these were all of an epoch.
    copies : int
        Copies of canaries that were seen whole.
    findings : tuple of Finding
        One for each check. What spoils less than a quarter of the copies, or a tenth of the
        canaries, as packing end to end does, is noted and not refused.
    context : str
        What nearly all copies have before them, beside a start token: the `context` of an audit.
    """

    batches: int
    complete: bool
    copies: int
    findings: tuple[Finding, ...]
    context: str = field(default="", repr=False)

    @property
    def sound(self) -> bool:
        """Whether no check refused the training."""
        return not self._of("refused")

    def __bool__(self) -> bool:
        return self.sound

    def _of(self, verdict: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict == verdict]

    def summary(self) -> str:
        """Whether to train, then each check that is not fine with its cure, refusals first."""
        says = "The training will see the canaries as planned"
        if self._of("noted"):
            says = "The training can begin, but not all is as planned"
        if not self.sound:
            says = "Do not train yet: the audit would not measure what was planted"
        read = f"{count(self.copies)} copies in {plural(self.batches, 'batch', 'batches')}"
        lines = [f"{says} ({read}, {'all' if self.complete else 'a part'} of an epoch)."]
        for finding in chain(*map(self._of, ("refused", "noted", "not checked"))):
            named = f"{finding.check}: " * (finding.verdict == "not checked")
            lines.append(f"{finding.verdict:>11}: {named}{finding.figure}")
            lines += [f"{'do this':>11}: {finding.cure}"] if finding.cure else []
        found = Counter(one.verdict for one in self.findings)
        verdicts = ", ".join(f"{number} {verdict}" for verdict, number in found.items())
        return "\n".join([*lines, f"{plural(len(self.findings), 'check')}: {verdicts}."])

    def _table(self) -> list[dict[str, Any]]:
        return [finding.to_dict() for finding in self.findings]

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        yield "preflight/refused", len(self._of("refused"))
        yield "preflight/copies", self.copies

    def require(self) -> None:
        """Raise an `InputError` with every refusal and its cure, unless it is sound."""
        if wrong := self._of("refused"):
            measuring = [finding.check for finding in wrong] == [_ASSUMED]
            head = "the exposure would be measured wrongly" if measuring else _UNLEARNED
            raise InputError(
                f"{head}: " + "; ".join(finding.figure for finding in wrong),
                cure="; ".join(dict.fromkeys(finding.cure for finding in wrong)),
            )


@sealed
@shows_progress
def preflight(
    training: Any,
    canaries: CanarySet,
    *,
    tokenizer: Any = None,
    model: Any = None,
    evaluation: Iterable[Any] | None = None,
    most: int = 10_000,
    **run: Unpack[Running],
) -> Preflight:
    """Read a training's own batches before it begins, and find what would spoil the audit.

    A canary that is masked, truncated or packed away is not learned, and its audit would find no
    memorization. Each such mistake is found here, with its cure.

    Parameters
    ----------
    training : Trainer of `transformers` or TRL, or iterable of batches
        Its training batches, as its collator makes them: mappings with ``input_ids`` and, where
        there are such, ``labels``, ``attention_mask`` and ``position_ids``, each of shape
        (rows, tokens). Of a Trainer, tokenizer, model, evaluation data and length are read, too.
    canaries : CanarySet
    tokenizer : tokenizer or path, optional
        That of the audit; the Trainer's unless given.
    model : torch module, optional
        Checked for parameters that do not train.
    evaluation : iterable of batches, optional
        Searched for canaries.
    most : int
        Batches to read at most. If there are more, copies are not counted.
    **run
        `start_token`, `context` and `chat_template` of the audit, and `progress`, as in
        `canary.scoring.run_options.RunOptions`.

    Returns
    -------
    Preflight
        Its `sound` is False where a mistake was found; `require` raises an error then.

    Raises
    ------
    InputError
        If there is no tokenizer, or an option does not serve.

    Notes
    -----
    Costs one pass over the data, without the model. Random states are restored; an iterator is not.

    Examples
    --------
    >>> canary.preflight(trainer, canaries).require()  # doctest: +SKIP
    """
    canary_set(canaries)
    most = whole_number(most, "most", at_least=1)
    options = built(RunOptions, run, "preflight")
    trainer = training if hasattr(training, "get_train_dataloader") else None
    settings = training if hasattr(getattr(training, "args", None), "learning_rate") else None
    if trainer is not None:
        tokenizer = tokenizer or trainer.processing_class
        model = trainer.model if model is None else model
    if tokenizer is None:
        cure = "give that of the training: preflight(..., tokenizer=...)"
        raise InputError("there is no tokenizer to find the canaries with", cure=cure)
    tokenizer = as_tokenizer(tokenizer)
    options = options.in_chat(tokenizer, canaries.formats, canaries.role)
    reading = EpochReading(canaries, tokenizer, options)
    with undisturbed(model):
        if trainer is not None:
            training = trainer.get_train_dataloader()
            if evaluation is None and trainer.eval_dataset is not None:
                kept = trainer.eval_dataset
                parts = [*kept.values()] if isinstance(kept, Mapping) else [kept]
                evaluation = chain.from_iterable(map(trainer.get_eval_dataloader, parts))
        reading.read(training, most)
        if evaluation is not None:
            reading.read_evaluation(evaluation, most)
    findings = [replace(judge(reading), check=check) for check, judge in _CHECKS.items()]
    findings.append(replace(trains(reading, model), check="the model trains on their tokens"))
    judged: dict[str, Finding | None] = {}
    if settings is not None:
        judged["every batch is trained on"] = long_enough(settings.args, reading.length)
        judged["the learning rate is above 0"] = learning_rate(settings, reading.length)
    findings += [replace(each, check=name) for name, each in judged.items() if each is not None]
    return Preflight(
        reading.seen.batches,
        reading.complete,
        reading.seen.whole.total(),
        tuple(findings),
        reading.context,
    )


def _held(reading: EpochReading) -> Finding:
    seen = reading.seen
    injected = [canary.id for canary in reading.canaries.injected]
    missing = [name for name in injected if not seen.whole[name]]
    figure = f"{count(len(injected) - len(missing))} of {count(len(injected))} canaries seen whole"
    if not seen.batches:
        cure = "give batches with token ids under input_ids, as the model gets them"
        return refused("no batch with input_ids was read", cure)
    if not missing:
        return fine(figure)
    figure = f"{figure}; missing: {_names(missing)}"
    if not reading.complete and len(missing) < len(injected):
        return noted(f"{figure}, in a part of the epoch", "raise most")
    if reading.unknown or any(reading.texts[name] for name in missing):
        cure = f"give the tokenizer that made the training's tokens, and audit with it; {_JOINED}"
    elif forms := {how: names for how, names in reading.changed.found.items() if names}:
        how = max(forms, key=lambda one: len(forms[one]))
        figure += f"; {plural(len(forms[how]), 'canary is', 'canaries are')} there {how}"
        cure = "train on the texts as canary inject wrote them, or write them as the training does"
    elif ended := seen.cut + seen.begun:
        figure += f"; {_cut_off(ended)} before the secret ends" * (not seen.cut)  # as _uncut says
        cure = _LONGER
    else:
        cure = (
            "train on the corpus that canary inject wrote (canary verify counts there); if it is, "
            "a column, a filter, a length limit or packing that splits texts loses the canaries"
        )
    found = len(injected) - len(missing)
    return (noted if found >= NEARLY_ALL * len(injected) else refused)(figure, cure)


def _cut_off(ended: Counter[int]) -> str:
    """How many copies end with their row, and after how many tokens if that is a limit."""
    ((limit, times),) = ended.most_common(1)
    said = f"{plural(ended.total(), 'copy', 'copies')} cut off"
    return f"{said} (rows of {count(limit)} tokens)" if times > ended.total() / 2 else said


def _own_tokens(reading: EpochReading) -> Finding:
    whole = reading.seen.whole
    others = {name: n - whole[name] for name, n in reading.texts.items() if n > whole[name]}
    if not others:
        return fine(plural(whole.total(), "copy", "copies"))
    copies = plural(sum(others.values()), "copy", "copies")
    return refused(
        f"{copies} of {_names(sorted(others))} have other tokens in the batches",
        f"inject with the tokenizer of the training, and do not change it afterwards; {_JOINED}",
    )


def _uncut(reading: EpochReading) -> Finding:
    if not (cut := reading.seen.cut):
        return fine("none cut")
    whole = reading.seen.whole.total()
    return (noted if whole >= _MOST * (whole + cut.total()) else refused)(
        f"{_cut_off(cut)} before the secret ends, {count(whole)} whole", _LONGER
    )


def _labels(reading: EpochReading) -> Finding:
    seen = reading.seen
    bare, copies = seen.unlabelled.total(), plural(seen.whole.total(), "copy", "copies")
    if seen.batches and not reading.labelled:
        cure = "check the response template, or how else the collator finds the answers"
        return refused(f"no token of any batch has a label: all are {IGNORED}", cure)
    if seen.odd or seen.shifted:
        cure = "labels are the input_ids: models of transformers shift them, other losses may not"
        wrong = f"{seen.odd + seen.shifted} of {copies} have labels of other tokens on the secret"
        return (refused if seen.odd else noted)(wrong, cure)
    if not bare:
        return fine(f"{copies} with labels")
    cure = "put the canaries where the loss is counted: into the answers, or train on whole texts"
    masks = "the text before the secrets has labels: see what the collator masks, such as digits"
    wrong = f"{count(bare)} of {copies} have no label on their secret, or on a part of it"
    return refused(wrong, masks if 2 * seen.masked.total() > bare else cure)


def _counts(reading: EpochReading) -> Finding:
    if not reading.complete:
        return unchecked(f"only {plural(reading.seen.batches, 'batch', 'batches')} read")
    planned = {canary.id: canary.repetitions for canary in reading.canaries.injected}
    found = {name: reading.seen.whole[name] for name in planned}
    differ = [name for name in planned if 0 < found[name] != planned[name]]
    if not differ:
        return fine(plural(sum(found.values()), "copy", "copies"))
    (factor, *others) = {found[name] / planned[name] for name in planned if found[name]}
    if not others and factor > 1:
        return refused(
            f"in one epoch every canary is there {factor:g} times as often as the set says",
            "repeat the data by epochs, or generate the set with the true number of copies",
        )
    shown = _names(
        [f"{name} {count(found[name])} times for {count(planned[name])}" for name in differ]
    )
    cure = "train on the corpus as canary inject wrote it, once an epoch, without splitting texts"
    few = _MOST <= sum(found.values()) / sum(planned.values()) < 1  # as where packing cuts some
    some = plural(len(differ), "canary is", "canaries are")
    figure = f"{some} not in the batches as often as the set says: {shown}"
    return (noted if few else refused)(figure, cure)


def _controls(reading: EpochReading) -> Finding:
    whole = reading.seen.whole
    seen = [c.id for c in reading.canaries if not c.repetitions and whole[c.id]]
    if not seen:
        return fine("none")
    return refused(
        f"{_names(seen)} in the batches", "make the training data with canary inject and this set"
    )


def _evaluation(reading: EpochReading) -> Finding:
    if not reading.evaluated:
        return unchecked("no evaluation data was given")
    if not reading.seen.evaluated:
        return fine("none")
    held = plural(len(reading.seen.evaluated), "canary is", "canaries are")
    cure = "inject after the split, into the training part"
    return refused(f"{held} in the evaluation data", cure)


def _before(reading: EpochReading) -> Finding:
    leads, options = reading.seen.leads, reading.options
    total, context = leads.total(), reading.context
    if not reading.seen.whole:
        return unchecked("no copy was seen whole")
    if not total and not options.context:
        return refused("no copy begins with the token that the audit will score", CHANGED)
    if not total:
        cure = (
            "render chats with the tokenizer's own template; or end context and prompt with a line "
            "break; or end both before the space that joins, and begin the format with it"
        )
        return refused("other text is joined to every copy, not the context", cure)
    token = None if options.start_token == AUTO else named_start(options.start_token)
    cure = "leave context out, or give the text that is before the canaries"
    if reading.canaries.role and options.context and not context:
        cure = (
            "the canaries are of chats, so the audit puts the tokenizer's chat template before "
            "each: apply it to the training texts, or give chat_template=None (--chat-template "
            "none) if training leaves it out"
        )
    if context:
        cure = f"give the callback (or preflight) context={context!r}, canary audit as --context"
    if options.context:
        encoder = CandidateEncoder(reading.tokenizer, token, options.context)
        (encoding,) = encoder.encode([reading.canaries.text(reading.canaries.injected[0])])
        assumed = encoding.ids[: sum(end <= 0 for _, end in encoding.spans or ())]
        alike = sum(n for lead, n in leads.items() if reading.ends_with(lead, assumed))
        figure = f"the context is before {count(alike)} of {plural(total, 'copy', 'copies')}"
        if alike < NEARLY_ALL * total:
            return refused(figure, cure)
        if 2 * sum(n for lead, n in leads.items() if len(lead) > len(assumed) + 1) > total:
            if len(reading.lead()) <= len(assumed) + 1:
                cure = (
                    "pack with positions that begin anew (packing_strategy='bfd' in TRL); else the "
                    "audit may find less than was learned, since other text was before each copy"
                )
            return noted(f"{figure}, and other text before that", cure)
        return fine(figure)
    if context:
        return refused("nearly all copies follow one text, and the audit has no context", cure)
    common, times = next(iter(reading.seen.after().items()))
    figure = f"{common} is before {count(times)} of {plural(total, 'copy', 'copies')}"
    if common == WITHIN:
        cure = (
            "inject canaries as texts of their own, or, if training puts a template around texts, "
            "give what ends before them as context; else the audit finds less than was learned"
        )
        return noted(figure, cure)
    if options.start_token == AUTO or common == shown_start(token):
        return fine(figure)
    return refused(figure, "leave start_token out, or name this one")


def _names(names: Sequence[str]) -> str:
    shown, more = ", ".join(map(clean, names[:_SHOWN])), len(names) - _SHOWN
    return f"{shown} and {count(more)} more" if more > 0 else shown


_CHECKS: dict[str, Callable[[EpochReading], Finding]] = {
    "every injected canary is in the batches": _held,
    "their tokens are those that the audit will score": _own_tokens,
    "no copy is cut off": _uncut,
    "the loss counts the secrets": _labels,
    "each canary is there as often as the set says": _counts,
    "no control is in the batches": _controls,
    "the evaluation data holds no canary": _evaluation,
    _ASSUMED: _before,
    "the copies are spread over the epoch": spread,
}
