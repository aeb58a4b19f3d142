"""What every walk does with what it cannot use: the same meaning and message in all of them."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest
from small_models import CHARACTERS, Cramped, build, character_tokenizer
from walk_cases import ctrl_c, told

from canary.audits.auditing import audit, exposure
from canary.audits.completing import completions
from canary.audits.extracting import extract
from canary.corpus.canaries import CanarySet, generate
from canary.errors import EstimationError, FormatError, InputError, ModelError
from canary.formats.format import Format
from canary.models.table_model import TableModel
from canary.scoring.batcher import Batcher
from canary.scoring.texts import score
from canary.tokens.fast import as_tokenizer

SIZE = len(CHARACTERS)
METHODS = ("auto", "rank", "enumeration", "importance", "sampling", "skew-normal")
WALKED = METHODS[:4]
ALL = (*METHODS, "audit", "extract", "completion")
BY_TREE = (*WALKED, "audit", "extract", "completion")


def flat_model(row=None, *, forbidden=()):
    """One state; `row` of log-probabilities, or uniform ones; some tokens may be impossible."""
    logs = np.full(SIZE, -np.log(SIZE)) if row is None else np.array(row)
    logs[[*forbidden]] = -np.inf
    tokenizer = as_tokenizer(character_tokenizer())
    return TableModel(np.zeros((1, SIZE), int), logs[None], tokenizer)


def steep_model():
    """Costs that differ, so that a curve can be fitted."""
    logits = np.random.default_rng(0).normal(0, 1, SIZE)
    return flat_model(logits - np.log(np.exp(logits).sum()))


def some(text):
    return generate(text, repetitions=[1], per_repetition=2, controls=1, seed=0)


def run(walk, model, canaries, **options):
    """One of the walks through the whole stack."""
    format = canaries.formats[0]
    if walk == "extract":
        return extract(model, format, canaries=canaries, **options)
    if walk == "completion":
        return completions(model, format, {c.id: c.fill for c in canaries}, known=1, **options)
    if walk == "audit":
        return audit(model, canaries, draws=50, **options)
    return exposure(model, canaries, method=walk, draws=50, **options)


class Broken:
    """A model with a number in it that is no log-probability.

    `place` is where: in whole rows, in the price of the context, in that of forced tokens or
    of children.
    """

    def __init__(self, value, place):
        self._model, self._value, self._place = build("table"), value, place

    def __getattr__(self, name):
        return getattr(self._model, name)

    def _broken(self, place, values):
        values = np.array(values)
        if place == self._place:
            values.reshape(-1)[:1] = self._value
        return values

    def score(self, rows):
        return self._broken("rows", self._model.score(rows))

    def open(self, context, *, memory_bytes):
        walker = self._model.open(context, memory_bytes=memory_bytes)
        walker.context_log_probs[:] = self._broken("context", walker.context_log_probs)
        expand = walker.expand

        def broken(nodes, tokens, *, keep=True):
            found = expand(nodes, tokens, keep=keep)
            names = ("path_log_probs", "log_probs")
            return replace(found, **{n: self._broken(n, getattr(found, n)) for n in names})

        walker.expand = broken
        return walker


FORMS = "ab{digit:1}-{digit:2}"
REFUSED = {
    "unknown character": ("aé{digit:3}", ["123"], ModelError, "it lacks 'é' in the fixed text"),
    "unknown in a fill": ("a{choice:yé|yz}", ["yz"], ModelError, "it lacks 'é' in a hole"),
    "not prefix-free": (Format("a{choice:b|bc|d}"), ["bc"], FormatError, "prefix-free.*put fixed"),
    "too long": ("a{digit:3}", ["471"], ModelError, "66 tokens is longer than the 64"),
    "NaN": (FORMS, ["4-71"], ModelError, "not finite numbers.*check the checkpoint"),
}


@pytest.mark.parametrize("walk", ALL)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_alike_input(case, walk) -> None:
    format, fills, error, match = REFUSED[case]
    model, options = flat_model(), {"context": "x" * 62} if case == "too long" else {}
    if case == "too long":
        model = build("gpt2")
    elif case == "NaN":
        model = Broken(np.nan, "log_probs" if walk in BY_TREE else "rows")
    with pytest.raises(error, match=match) as caught:
        run(walk, model, CanarySet.from_fills(format, fills), **options)
    assert not any(fill in str(caught.value) for fill in fills)


NO_NUMBER = "not finite numbers.*check the checkpoint"
NO_LOG = r"gives 2\.5 nats .* above 0; .*not logits"


@pytest.mark.parametrize(
    ("walk", "place", "value", "match"),
    [
        ("rank", "rows", 2.5, NO_LOG),
        *(("extract", place, 2.5, NO_LOG) for place in ("context", "path_log_probs", "log_probs")),
        *((walk, "context", np.inf, NO_NUMBER) for walk in ("rank", "extract", "completion")),
        *((walk, "path_log_probs", np.inf, NO_NUMBER) for walk in ("rank", "extract")),
    ],
)
def test_numbers_that_are_no_log_probabilities_input(walk, place, value, match) -> None:
    """In the price of the context too, which no child shows: falling costs would prove lies."""
    with pytest.raises(ModelError, match=match):
        run(walk, Broken(value, place), some(FORMS))


@pytest.mark.parametrize("walk", [*METHODS, "audit"])
def test_rows_of_probability_0_degenerate(walk) -> None:
    """No canary can be ranked: which, and in how many, is said without its fill."""
    canaries = CanarySet.from_fills("a{digit:3}", ["111", "151"])
    message = "probability 0 to {} of the {} canaries and controls.*number {}.*format without them"
    with pytest.raises(ModelError, match=message.format(r"\d+", r"\d+", 2)) as caught:
        run(walk, flat_model(forbidden=[5]), canaries)
    assert "151" not in str(caught.value)
    with pytest.raises(ModelError, match=message.format(3, 3, 1)):
        run(walk, flat_model(forbidden=range(SIZE)), some("ab{digit:3}"))


def test_rows_of_probability_0_complete_nothing_degenerate() -> None:
    found = run("completion", flat_model(forbidden=range(SIZE)), some("ab{digit:3}"))
    assert [(c.greedy, c.beam, c.queries) for c in found] == [(False, False, 0)] * 3


@pytest.mark.parametrize("walk", [*WALKED, "sampling", "audit"])
def test_draws_of_probability_0_are_the_last_degenerate(walk) -> None:
    """Others may be impossible: they are candidates, and rank behind all that are not."""
    canaries = generate(
        "a{choice:1|2|3|4|5|6}", repetitions=[1], per_repetition=1, controls=0, seed=2
    )
    assert canaries.canaries[0].fill != "5"
    found = run(walk, flat_model(forbidden=[5]), canaries)
    (result,) = found.canaries if walk == "audit" else found
    assert result.exposure.lower_bits <= np.log2(6 / 5) <= result.exposure.upper_bits
    if result.exposure.exact:
        assert result.exposure.rank == 5


def padded_model():
    """Special, unused and missing tokens take nearly all of the probability.

    The tokenizer has a start token that it puts before each text, one that no text gives and
    a gap between its ids; the model has 9 columns more than the tokenizer has tokens.
    """
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.processors import TemplateProcessing

    spec = json.loads(character_tokenizer().to_str())
    spec["model"]["vocab"]["never used"] = SIZE + 4
    backend = Tokenizer.from_str(json.dumps(spec))
    backend.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>")])
    start = backend.token_to_id("<s>")
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    tokenizer = as_tokenizer(backend)
    assert tokenizer.size > len(backend.get_vocab()) > SIZE
    columns = tokenizer.size + 9
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1, (6, columns))
    logits[:, SIZE:] += 4.0
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return TableModel(rng.integers(0, 6, (6, columns)), logs, tokenizer)


def test_tokens_that_no_candidate_has_take_probability_only_oracle() -> None:
    """Each walk finds what scoring all candidates as whole rows finds."""
    model, format = padded_model(), Format("a{digit:2}b{digit:1}")
    texts = [format.candidate(fill) for fill in format]
    costs = score(model, texts)
    order = np.argsort(costs)
    fills = [format.unrank(int(order[at])) for at in (0, 7, 100, 999)]
    ranks = [int((costs <= costs[order[at]]).sum()) for at in (0, 7, 100, 999)]
    canaries = CanarySet.from_fills(format, fills)
    for walk in ("enumeration", "rank"):
        assert [r.exposure.rank for r in run(walk, model, canaries)] == ranks
    found = exposure(model, canaries, method="importance", draws=2_000)
    assert [r.exposure.rank_lower for r in found] == ranks
    for r, truth in zip(run("sampling", model, canaries), ranks, strict=True):
        assert r.exposure.lower_bits <= np.log2(1000 / truth) <= r.exposure.upper_bits
    best = extract(model, format, top=5)
    assert best.proven
    np.testing.assert_allclose([c.px_bits for c in best.candidates], costs[order[:5]])
    wide = completions(model, format, {"best": fills[0]}, known=0, beam=1000)
    assert wide[0].beam


@pytest.mark.parametrize("walk", [*WALKED, "sampling", "audit"])
def test_an_interruption_passes_through_and_the_model_serves_again(walk, monkeypatch) -> None:
    """Exposures have no half: Ctrl-C is for the caller. Extraction answers: tested beside it."""
    model, canaries = steep_model(), some("a{digit:3}")
    whole = run(walk, model, canaries)
    for after in (0, 2):
        with monkeypatch.context() as patch:
            stop = ctrl_c(after)
            for name in ("expand", "score"):
                patch.setattr(Batcher, name, told(getattr(Batcher, name), stop))
            with pytest.raises(KeyboardInterrupt):
                run(walk, model, canaries)
    again = run(walk, model, canaries)
    assert again.canaries == whole.canaries


def test_batches_repeated_in_halves_count_once() -> None:
    """What was computed before memory ran out is in no count, and no budget ends by it."""
    canaries = some("ab{digit:3}")
    for walk in ("rank", "importance", "extract"):
        cramped = Cramped(steep_model(), 5)
        run(walk, cramped, canaries, batch_size=64)
        assert cramped.refused > 0
    whole = audit(steep_model(), canaries, draws=50).formats[0]
    halved = audit(Cramped(steep_model(), 5), canaries, draws=50, batch_size=64).formats[0]
    assert halved.queries == whole.queries
    best = extract(steep_model(), "ab{digit:3}", top=3, batch_size=1)
    again = extract(Cramped(steep_model(), 1), "ab{digit:3}", top=3, budget=best.queries + 20)
    assert [c.fill for c in again.candidates] == [c.fill for c in best.candidates]
    assert again.queries <= best.queries + 20


def test_a_curve_names_candidates_of_probability_0_input():
    canaries, model = CanarySet.from_fills("a{digit:4}", ["1111"]), flat_model(forbidden=[3])
    with pytest.raises(EstimationError, match="probability 0, and no curve.*another method") as e:
        exposure(model, canaries, method="skew-normal", draws=200)
    assert "NaN" not in str(e.value)


def never(*given, **options):
    raise AssertionError("a model was loaded")


NO_NUMBERS = (float("nan"), True, 2.5, "5")
WRONG = {
    "budget": (0, *NO_NUMBERS, None),
    **dict.fromkeys(("draws", "top", "beam", "most_open", "seed"), (*NO_NUMBERS, None)),
    **dict.fromkeys(("known", "batch_size", "seconds"), (*NO_NUMBERS[:2], "5", -1)),
    "context": (5, b"a"),
    "start_token": (5, b"a"),
    "progress": (5, "a"),
    "method": (None, 5, ["rank"]),
    "stop": (None, 5, ["proof"]),
}
CALLS = {"auto": exposure, "audit": audit, "extract": extract, "completion": completions}


@pytest.mark.parametrize(
    ("walk", "option"),
    [(w, o) for w, call in CALLS.items() for o in WRONG if o in inspect.signature(call).parameters],
)
def test_options_of_another_type_are_refused_before_a_model_is_loaded_input(
    walk, option, monkeypatch
) -> None:
    for name in ("auditing", "extracting", "completing"):
        monkeypatch.setattr(f"canary.audits.{name}.load", never)
    chosen = some("a{digit:3}")
    given = {
        "extract": (chosen.formats[0],),
        "completion": (chosen.formats[0], {c.id: c.fill for c in chosen}),
    }.get(walk, (chosen,))
    usual = {"known": 1} if walk == "completion" else {}
    for value in WRONG[option]:
        with pytest.raises(InputError, match=option) as caught:
            CALLS[walk]("no model", *given, **{**usual, option: value})
        assert caught.value.cure


@pytest.mark.parametrize("given", [None, 5, [1], b"a"])
def test_what_is_no_set_of_canaries_and_no_format_is_refused_input(given) -> None:
    for call in (exposure, audit):
        with pytest.raises(InputError, match="canaries must be a CanarySet"):
            call("no model", given)
    with pytest.raises(FormatError, match="text"):
        extract("no model", given)
    with pytest.raises(FormatError, match="text"):
        completions("no model", given, {"it": "1"}, known=1)
