"""The whole table of a model's checks: what was measured, and whether it can be believed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from canary.errors import CanaryError, InputError, ModelError
from canary.formats.format import Format
from canary.models.english import SENTENCES, TEXTS, english_rows, price_rows, rows_of
from canary.models.examining import TOKENS_BY_DEFAULT, examined, finding_of, reading
from canary.models.experiments import Finding, fine, noted, refused, unchecked
from canary.models.language_model import LanguageModel
from canary.models.loading import load
from canary.records.record import Record
from canary.records.validation import named_start, whole_number
from canary.statistics.number_checks import LN2
from canary.statistics.numbers import Shown, plural
from canary.tokens.candidates import CandidateEncoder
from canary.tokens.starts import shown_before
from canary.tokens.tree import compile_tree

_LOADS = "it can be loaded"
_FORMAT = "the code is {digit:4}"
_TOKENIZER = (
    "give the tokenizer of the training, its vocabulary in the same order (tokenizer=, "
    "--tokenizer), and texts such as the model was trained on"
)


@dataclass(frozen=True, repr=False)
class Examination(Shown, Record, written=("model", "sound", "findings")):
    """What the checks of a model found.

    Parameters
    ----------
    model : str
        What it was loaded from.
    findings : tuple of Finding
        In the order of the checks.
    """

    model: str
    findings: tuple[Finding, ...]

    def summary(self) -> str:
        """How many checks passed, a line for each, and what to do."""
        lines = [f"{f.verdict:>11}: {f.check} ({f.figure})" for f in self.findings]
        cures = [
            f"{'consider' if f.verdict == 'noted' else 'do this':>12}: {f.cure}"
            for f in self.findings
            if f.cure and f.verdict != "fine"
        ]
        return "\n".join([self.outcome, *lines, *dict.fromkeys(cures)])

    @property
    def outcome(self) -> str:
        """How many checks passed, and what that means."""
        if not self.loaded:
            return "The model could not be loaded, so nothing was checked."
        found = Counter(finding.verdict for finding in self.findings)
        every, passed = plural(len(self.findings), "check"), found.pop("fine", 0)
        others = "".join(f", {number} {verdict}" for verdict, number in found.items())
        says = f"{passed} of {every} passed{others}." if others else f"All {every} passed."
        if self.sound:
            if self.noted:
                says = f"Sound, with {plural(len(self.noted), 'doubt')}: {says}"
            return (
                f"{says} They do not check what the model memorized, or which start token training "
                "used."
            )
        return f"{says} Do not use its numbers."

    def _table(self) -> list[dict[str, Any]]:
        return [finding.to_dict() for finding in self.findings]

    @property
    def sound(self) -> bool:
        """Whether it was loaded, and no check refused it; there may be doubts (`noted`)."""
        return self.loaded and all(finding.verdict != "refused" for finding in self.findings)

    def __bool__(self) -> bool:
        return self.sound

    @property
    def noted(self) -> tuple[Finding, ...]:
        """Doubts: what a wrong set-up shows, such as an untrained model, and a rare right one."""
        return tuple(finding for finding in self.findings if finding.verdict == "noted")

    @property
    def loaded(self) -> bool:
        """Whether there was a model to check."""
        return all(finding.verdict != "not loaded" for finding in self.findings)


def doctor(
    model: Any,
    *,
    start_token: str | None = None,
    tokens: int = TOKENS_BY_DEFAULT,
    texts: Sequence[str] | None = None,
    **loading: Any,
) -> Examination:
    """Every check of a model's numbers, with what was measured.

    Parameters
    ----------
    model : LanguageModel, or what `canary.load` takes
    start_token : str, optional
        What training put before each text. Unless given, it is what the tokenizer adds, or
        nothing: unlike `canary.audit`, this looks for none.
    tokens : int
        Of the long rows of some checks: as many as the longest candidate, its context
        included. What the model takes, if that is less.
    texts : sequence of str, optional
        Texts such as the model was trained on. A model that finds them less likely than tokens
        drawn at random is refused: so it is with a vocabulary in another order, unless only
        few tokens have other places. A model that knows them may know no English. The first 64 are
        scored, and 256 tokens of each.
    **loading
        Options of `canary.load`: tokenizer, factory, dtype, device and so on.

    Returns
    -------
    Examination
        Its `sound` is False where a check refused the model, and `noted` has what is doubtful.
        A model that cannot be loaded is an examination of one finding.

    Raises
    ------
    InputError
        If `model` is nothing that can be loaded, an option does not serve, the start token is
        no token, or `texts` has no text.
    ServerError
        If a server cannot be reached.

    Notes
    -----
    Costs some thousand token computations, and about 50 rows of `tokens` tokens; of an
    adapter whose children are rows of their own, also two rows for each token of the
    vocabulary.

    Examples
    --------
    >>> print(canary.doctor("./model").sound)  # doctest: +SKIP
    True
    """
    # An adapter is not loaded: its refusal there would hide the other checks.
    adapter = all(hasattr(model, name) for name in ("score", "open", "facts"))
    if adapter and loading:
        problem = f"{', '.join(loading)}: for loading a model, and this one is loaded"
        raise InputError(problem, cure="omit it", where="doctor")
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__
    opening = partial(load, model, **loading)
    return examine((lambda: model) if adapter else opening, name, start_token, tokens, texts)


def examine(
    opening: Callable[[], LanguageModel],
    name: str,
    start_token: str | None,
    tokens: int | None,
    texts: Sequence[str] | None = None,
    *,
    context: str = "",
) -> Examination:
    """`doctor` of the model that `opening` gives, or a ModelError."""
    if texts is not None and (isinstance(texts, str) or not any(map(str.strip, texts))):
        raise InputError("has no text", cure="give a list of texts", where="texts")
    try:
        model = opening()
    except ModelError as error:
        where = f"{error.where}: " if error.where else ""
        finding = Finding(_LOADS, "not loaded", f"{where}{error.problem}", error.cure)
        return Examination(name, (finding,))
    tokens = whole_number(tokens or TOKENS_BY_DEFAULT, "tokens", at_least=1)
    if tokens > 1 and hasattr(model, "find_limit"):
        model.find_limit(tokens)
    encoder = CandidateEncoder(model.tokenizer, named_start(start_token), context)  # raises if none
    return Examination(model.facts.name, tuple(_findings(model, encoder, tokens, texts)))


def _findings(
    model: LanguageModel, encoder: CandidateEncoder, tokens: int, texts: Sequence[str] | None
) -> Iterator[Finding]:
    facts, own = model.facts, None
    if texts is not None:
        says = "your texts are more likely than the same tokens shuffled, and than random ones"
        own = finding_of(says, _own_texts, model, texts)
    figure = f"{facts.dtype} on {facts.device}; {', '.join(facts.capabilities)}"
    yield Finding(_LOADS, "fine", figure)
    if facts.device == "served":
        echoed = ", cut off or those of other tokens" if "score" in facts.capabilities else ""
        says = f"its log-probabilities are not rounded{echoed}"
        yield Finding(says, "fine", "those of random tokens, when the server was opened")
    else:
        yield from examined(model)
        yield from reading(model, tokens=tokens, start_token=encoder.start_token)
        says = "ordinary English is more likely than the same tokens shuffled, and than random ones"
        english = finding_of(says, _english, model)
        if own and own.verdict == "fine" and english.verdict == "noted":
            english = replace(unchecked(f"{english.figure}: your texts are, instead"), check=says)
        yield english
    if own:
        yield own
    says = "what comes before the first token of a text"
    yield finding_of(says, _start, encoder)
    says = f"the tokens of all candidates of {_FORMAT!r} make a tree"
    yield finding_of(says, _tree, encoder)


def _english(model: LanguageModel) -> Finding:
    try:
        if not (rows := english_rows(model)):
            return unchecked("the tokenizer cannot write it")
        english = price_rows(model, rows, shuffles=4)
    except Exception as error:  # the adapter is the caller's own code
        ours = isinstance(error, CanaryError)
        return unchecked(str(error) if ours else f"it raised {type(error).__name__}")
    if english is None:
        return unchecked("memory ran out")
    figure = (
        f"{english.bits_per_token:.2f} bits per token, shuffled {english.shuffled:.2f}, random "
        f"tokens {english.uniform:.2f} where all are equally probable"
    )
    if english.ordinary and english.in_order:
        return fine(figure)
    return noted(
        figure,
        "is it trained, and is this its tokenizer? An adapter: are logits of position i taken "
        "for token i + 1? A model of another language, or of a narrow corpus, may be right",
    )


def _own_texts(model: LanguageModel, texts: Sequence[str]) -> Finding:
    if model.facts.device == "served":
        return unchecked("its server compared the tokenizer when it was opened")
    rows = rows_of(model, texts)
    priced = price_rows(model, rows, shuffles=1)
    if priced is None:
        return unchecked("memory ran out" if rows else "no text has two tokens")
    some = [text for text in texts if text.strip()][:TEXTS]
    figure = (
        f"{priced.bits_per_token:.2f} bits ({priced.bits_per_token * LN2:.2f} nats) per token of "
        f"{plural(len(some), 'text')}, shuffled "
        f"{priced.shuffled:.2f}, random tokens {priced.uniform:.2f}"
    )
    if priced.bits_per_token >= priced.uniform:
        return refused(figure, _TOKENIZER)
    if priced.ordinary and priced.in_order:
        return fine(figure)
    return noted(figure, f"nothing is decided: {_TOKENIZER}")


def _start(encoder: CandidateEncoder) -> Finding:
    for text in (SENTENCES[0], SENTENCES[0].lower().rstrip("."), "0"):
        try:
            encodings = encoder.encode([text])
        except ModelError:
            continue
        except CanaryError as error:
            return refused(error.problem, error.cure)
        break
    else:
        return unchecked("the tokenizer writes no English and no digit")
    if encoder.starts_bare(encodings):
        return noted(
            "nothing, since no start token was named; the first token of each text is not counted",
            "if training put a token there, name it with start_token (--start-token): canary audit "
            "tries some, and this check none",
        )
    if encoder.context:
        before = shown_before(encoder.start_token, encoder.context)
        return fine(f"{before}, as was asked; training is not at hand to compare")
    if encoder.start_token is None:
        return fine("the tokenizer's own token; none was named")
    return fine(f"{encoder.start_token!r}, as was asked; training is not at hand to compare")


def _tree(encoder: CandidateEncoder) -> Finding:
    try:
        tree = compile_tree(Format.of(_FORMAT), encoder)
    except CanaryError as error:
        cure = error.cure or "use formats whose candidates this tokenizer can write"
        return noted(error.problem, cure)
    return fine(str(tree.certificate)) if tree.certified else noted(str(tree.certificate))
