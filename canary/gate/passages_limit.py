"""A limit on the share of passages that come out of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from canary.gate.extraction_limit import FIND_OUT, NOT_DRAWN, OWN_CANDIDATES
from canary.gate.subjects import Subject, limit_checked, nothing_to_check
from canary.gate.verdict import Finding, Outcome, Policy, Verdict, measured, verdict_on
from canary.passages.extractable import Extractable, none_needed, said_share, share_percent
from canary.passages.result import SWAPPED, Verbatim
from canary.passages.sampled import LEVEL, SURE, UNSEEN, Sampled
from canary.statistics.clustered import ClusteredShare
from canary.statistics.numbers import count, plural, probability

_MOST_NEEDED = 1_000_000
_AGAIN = (
    "train again so that less is memorized (remove duplicates, fewer epochs, differential "
    "privacy), and repeat the test"
)


def check_passages(
    given: Any,
    *,
    max_extractable: float | None,
    tries: int,
    chance: float,
    trust_members: bool,
    undecided: Policy,
) -> Verdict:
    """The verdict on a `Verbatim` or its file; see `canary.check`.

    Raises
    ------
    InputError
        If there is no limit, or an option is out of range.
    RecordError
        If the file is damaged or too new.
    """
    most = _most(max_extractable, "a test of passages")
    result = given if isinstance(given, Verbatim) else Verbatim.load(given)
    found = result.extractable(tries=tries, chance=chance)
    schemes = "; ".join(map(str, result.schemes))
    how = f"by greedy decoding or within {plural(tries, 'sample')} ({schemes})"
    how += f", with up to {result.near_edits}" if result.texts.near else ""
    finding = _judged(found, most, how, trusted=trust_members)
    if result.texts.near and finding.outcome in ("passed", "failed"):
        end = 2 if finding.outcome == "passed" else 1
        ends = result.near_at(end).extractable(tries=tries, chance=chance)
        if _judged(ends, most, how, trusted=trust_members).outcome != finding.outcome:
            told = f"; with the {'lower' if end == 1 else 'upper'} ends of the intervals of near "
            told += f"passages they are {said_share(ends.texts)}, so this is not certain"
            cure = "measure again with a larger --near-width, which makes these intervals narrower"
            told = finding.sentence + told
            finding = replace(finding, outcome="undecided", sentence=told, cure=cure)
    finding = _of_one_kind(finding, result, trusted=trust_members)
    doubts = list(result.doubts)
    if not trust_members and result.half_known[0]:
        problem, cure = result.half_known
        cure += "; if they are the same, and the model was trained on them, say so with "
        doubts.append((problem, f"{cure}--trust-members"))
    finding = _doubted(finding, doubts)
    word = _your_word(finding, "texts", shown=_recognized(found), beside=result.no_better_known)
    notes, allowed = [*result.notes, *word], f"{_percent(most)} of the passages {how}"
    return verdict_on(
        *("a test of passages", [_named(finding, result)], undecided, notes),
        about={"Limit": f"{allowed}, with a chance of {_percent(chance)}"},
        tested=result, source=(result.to_dict(), result.file),
    )  # fmt: skip


def check_samples(
    given: Any,
    *,
    max_extractable: float | None,
    trust_members: bool,
    undecided: Policy,
) -> Verdict:
    """The verdict on a `Sampled` or its file: passages as `check_passages`, or planted secrets.

    Of planted secrets, *memorized* needs a share above the limit by the lower end of its interval,
    and a p-value of 0.001 at most for so many among the samples by chance. A pass needs 72 samples
    or more, unless the temperature is 0.

    Raises
    ------
    InputError, RecordError
        As for `check_passages`.
    """
    most = _most(max_extractable, "samples of a server")
    result = given if isinstance(given, Sampled) else Sampled.load(given)
    found, how = result.came_out(), f"within {plural(result.samples, 'sample')}"
    if result.planted:
        finding = _planted(result, most, how, trusted=trust_members)
    else:
        finding = _judged(found, most, how, trusted=trust_members)
    finding = _of_one_kind(finding, result, trusted=trust_members)
    if finding.outcome == "passed" and result.undetected > LEVEL and result.settings["temperature"]:
        told = (
            "; one that the model writes in up to "
            f"{share_percent(result.undetected)} of its answers can stay unseen"
        )
        enough = math.ceil(math.log((1.0 - result.confidence) / 2) / math.log1p(-LEVEL))
        cure = f"draw at least {count(enough)} samples (--samples)"
        finding = replace(finding, outcome="undecided", sentence=finding.sentence + told, cure=cure)
    secrets = "secrets" if result.natural else "planted secrets"
    what = secrets if result.planted else "passages"
    shown = _beyond_chance(result) if result.planted else _recognized(found)
    finding = _doubted(finding, result.doubts(most))
    hidden = result.doubts(most) if result.planted else ()
    if finding.outcome == "undecided" and hidden and found.texts.lower <= most:
        problem, cure = hidden[0]
        told = finding.sentence.removesuffix(f", but {problem}")
        finding = replace(finding, sentence=f"{told}, but {problem}", cure=cure)
    word = _your_word(finding, "secrets" if result.planted else "texts", shown=shown)
    word += [UNSEEN] if finding.outcome == "passed" and any(result.texts.hits) else []
    return verdict_on(
        *("samples of a server", [_named(finding, result)], undecided, [*result.notes, *word]),
        about={"Limit": f"{_percent(most)} of the {what} {how}"},
        tested=result, source=(result.to_dict(), result.file),
    )  # fmt: skip


def _of_one_kind(finding: Finding, result: Verbatim | Sampled, *, trusted: bool) -> Finding:
    """The finding, undecided where it rests on controls of another kind than the texts."""
    why = result.likeness.other_kind
    if not why or not _rests_on_controls(finding, trusted=trusted):
        return finding
    told = f"{finding.sentence}, but the controls are of another kind than the texts: {why}"
    cure = "repeat the test with controls from the same source as the texts"
    if finding.outcome == "passed":
        cure += ", or, if you know that the model was trained on the texts, say so with "
        cure += "--trust-members"
    return replace(finding, outcome="undecided", sentence=told, cure=cure)


def _doubted(finding: Finding, doubts: Sequence[tuple[str, str]]) -> Finding:
    """The finding, which is no pass where something is doubtful."""
    if finding.outcome != "passed" or not doubts:
        return finding
    problem, cure = doubts[0]
    told = f"{finding.sentence}, but {problem}"
    return replace(finding, outcome="undecided", sentence=told, cure=cure)


def _your_word(finding: Finding, kind: str, *, shown: bool, beside: str = "") -> list[str]:
    """The note on a pass of which nothing shows that the texts were in the training data."""
    if finding.outcome != "passed" or shown:
        return []
    word = f"that the {kind} were in the training data is your word"
    return [f"{word}, and {beside}" if beside else word]


def _named(finding: Finding, result: Verbatim | Sampled) -> Finding:
    """The finding with its model and day, by which the file of another model is noticed."""
    weights = f"weights {result.model_version}" if result.model_version else ""
    day = f"tested on {result.about.date}" if result.about.date else ""
    which = ", ".join(filter(None, (weights, day)))
    model = f"model {result.model_name or 'without a name'}" + (f" ({which})" if which else "")
    return replace(finding, sentence=f"{model}: {finding.sentence}")


def _planted(result: Sampled, limit: float, how: str, *, trusted: bool) -> Finding:
    """Whether the share of planted secrets that come out keeps a limit."""
    share, chance = result.came_out().texts, result.chance
    secret = "secret" if result.natural else "planted secret"
    hits = f"{count(share.hits)} of {plural(share.windows, secret)}"
    told = (
        f"{hits} ({100 * share.lower:.3g} % to {100 * share.upper:.3g} % at "
        f"{100 * share.confidence:g} %) came out {how}"
    )
    p = "an unknown chance" if chance is None else f"p = {probability(chance.p_value)}"
    outcome: Outcome = "undecided"
    if result.exceeds(limit):
        outcome, cure = "memorized", _AGAIN
        told += f", above the limit of {_percent(limit)}; by chance, that many or more have {p}"
    elif share.lower > limit and result.natural:
        told += f", above the limit of {_percent(limit)}, but {NOT_DRAWN}; {OWN_CANDIDATES}"
        cure = FIND_OUT
    elif share.lower > limit:
        told += f", above the limit of {_percent(limit)}, but chance may give that many ({p})"
        cure = "plant secrets of more digits, so that chance gives none of them"
    elif share.upper > limit:
        told += f", and the limit of {_percent(limit)} is in this interval"
        cure = f"{'take' if result.natural else 'plant'} {_more(share, limit, 'secrets')}"
    elif not trusted and not _beyond_chance(result):
        told += (
            f", within the limit of {_percent(limit)}, and nothing shows that the model was "
            "trained on them"
        )
        cure = (
            "make sure that they were in the training data, and say so with --trust-members, in "
            "Python trust_members"
        )
    else:
        outcome, cure = "passed", ""
        told += f", within the limit of {_percent(limit)}"
        told += f"; {plural(share.hits, 'secret')} came out all the same" if share.hits else ""
    return Finding(
        *("passages", f"share of {secret}s that come out", outcome, told, cure),
        **measured(limit, share, share.confidence),
    )


def _most(limit: float | None, subject: Subject) -> float:
    if limit is None:
        raise nothing_to_check(subject)
    of, cure = "on the share of passages", "give a share above 0 and below 1, such as 0.5 for 50 %"
    return limit_checked(limit, lambda share: 0.0 < share < 1.0, of, cure, "max_extractable")


def _recognized(found: Extractable) -> bool:
    """Whether texts come out more than controls, which shows that the model was trained on them."""
    return found.difference is not None and found.difference.p <= LEVEL


def _beyond_chance(result: Sampled) -> bool:
    """Whether planted secrets come out, and not by chance, which shows that they were read."""
    chance = result.chance
    return any(result.texts.hits) and chance is not None and chance.p_value <= SURE


def _rests_on_controls(finding: Finding, *, trusted: bool) -> bool:
    """Whether a verdict does: memory was shown, or a pass needs it to be shown."""
    return finding.outcome == "failed" or (finding.outcome == "passed" and not trusted)


def _more(share: ClusteredShare, limit: float, what: str, found: Extractable | None = None) -> str:
    """How many texts or secrets decide, where the limit is in the interval."""
    if not share.hits:
        needed = count(none_needed(share, limit))
        return f"at least {needed} {what}, which is enough if nothing of them comes out"
    needed = _needed(found or Extractable(share), limit, what)
    needed = needed or f"many more than {count(share.documents)} {what}"
    return f"{needed}, which decide if shares stay as they are"


def _needed(found: Extractable, limit: float, what: str = "texts") -> str:
    """How many of these decide if shares stay as they are: intervals shrink by the square root."""
    share, lead = found.texts, found.difference
    value, end = share.value, share.upper
    if share.value > limit:
        value, end = (share.value, share.lower) if lead is None else (lead.value, lead.lower)
        if lead is not None and lead.p > LEVEL:
            end = min(end, 0.0)
    gap = value - limit
    if gap == 0.0 or (gap < 0.0) != (end > value):
        return ""
    needed = math.ceil(share.documents * max(abs((end - value) / gap), 1.0) ** 2)
    beside = "" if found.controls is None else " and as many controls"
    return f"about {count(needed)} {what}{beside}" if needed < _MOST_NEEDED else ""


def _judged(found: Extractable, limit: float, how: str, *, trusted: bool) -> Finding:
    share, lead = found.texts, found.difference
    outcome: Outcome = "undecided"
    told = f"{said_share(share)} of the texts come out {how}"
    allowed = f"limit of {_percent(limit)}"
    if lead is not None and lead.lower > limit and lead.p <= LEVEL:
        outcome = "failed"
        told += (
            f"; that is {_percent(lead.value)} more than of the controls (at least "
            f"{_percent(lead.lower)}, p = {probability(lead.p)}), above the {allowed}"
        )
        cure = _AGAIN
    elif lead is not None and lead.upper < 0.0:
        told += f", and of the controls {said_share(found.controls)}" if found.controls else ""
        cure = f"{SWAPPED[:1].lower()}{SWAPPED[1:]}"
    elif share.lower > limit and found.controls is None:
        told += f", above the {allowed}; without controls any model may do so"
        cure = f"repeat the test with --controls: about {plural(share.documents, 'text')}, as many "
        cure += "as were tested, from the same source, that the model never saw"
    elif share.lower > limit:
        assert found.controls is not None
        told += (
            f", above the {allowed}; of the controls {said_share(found.controls)}, so memory is "
            "not shown to exceed the limit"
        )
        cure = "remove predictable passages (licences, headers) from texts and controls"
        if needed := _needed(found, limit):
            cure = f"give {needed}, or {cure}"
    elif share.upper > limit:
        told += f", and the {allowed} is in this interval"
        cure = f"give {_more(share, limit, 'texts long enough for a passage', found)}"
    elif not trusted and not _recognized(found):
        told += (
            f", within the {allowed}, and nothing shows that the model was "
            "trained on these texts: of others, any model looks like this"
        )
        cure = (
            "if you know that the model was trained on these texts, say so with --trust-members, "
            "in Python trust_members; if you only guess it, this test can find memory and give no "
            "all-clear"
        )
    else:
        outcome, cure = "passed", ""
        told += f", within the {allowed}"
    return Finding(
        *("passages", "share of passages that come out", outcome, told, cure),
        **measured(limit, share, share.confidence),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
