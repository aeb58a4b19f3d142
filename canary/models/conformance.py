"""What every adapter must do, as checks that anybody can run on theirs.

Each check takes a model behind the seam and raises `AssertionError` where it breaks the
contract of `canary.models.language_model`. An adapter's test is one line::

    @pytest.mark.parametrize("check", CHECKS)
    def test_conformance(check):
        check(my_model)

Numbers are compared to within the model's own ``noise_bits``: exactly, where it claims
to have none, and where it holds states never beyond what rounding of its dtype
explains.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import numpy as np

from canary.models.language_model import (
    Children,
    Context,
    LanguageModel,
    Rows,
    TellsMoments,
    Walker,
)
from canary.models.noise import (
    chain_log_probs,
    nodes_of,
    opened,
    random_rows,
    rounding,
    row_table,
)
from canary.statistics.number_checks import LN2

_CONTEXT, _BELOW = 5, 6
TOKENS = _CONTEXT + _BELOW
"""Tokens of the longest row that a check asks for."""

_differences: ContextVar[list[float]] = ContextVar("differences")


class DeviationError(AssertionError):
    """Numbers that differ by more `nats` than the noise of a candidate of this length."""

    def __init__(self, nats: float, noise: float) -> None:
        super().__init__(f"differs by {nats:.3g} nats, the noise is {noise:.3g}")
        self.nats = nats


def worst_nats(check: Callable[[LanguageModel], None], model: LanguageModel) -> float:
    """Run a check, which may raise; the largest difference that it allowed, in nats."""
    token = _differences.set([0.0])
    try:
        check(model)
        return max(_differences.get())
    finally:
        _differences.reset(token)


def asked_twice(model: LanguageModel) -> None:
    """A row costs the same when it is asked for twice."""
    rows = random_rows(model, 2, TOKENS, seed=11)
    _close(model, row_table(model, rows), row_table(model, rows))


def batch_size_does_not_matter(model: LanguageModel) -> None:
    """A row costs the same alone and in a batch."""
    rows = _sequences(model, 9)
    together = model.score(Rows.of(rows, _CONTEXT))
    alone = [model.score(Rows.of([ids], _CONTEXT)) for ids in rows]
    _close(model, together, np.concatenate(alone))


def later_tokens_do_not_matter(model: LanguageModel) -> None:
    """A token's price does not depend on the tokens after it."""
    rows = random_rows(model, 8, TOKENS, seed=11)
    other, half = rows.copy(), rows.shape[1] // 2
    other[:, half:] = np.roll(rows[:, half:], 1, axis=0)
    _close(model, *(row_table(model, ids)[:, : half - 1] for ids in (rows, other)))


def context_is_priced(model: LanguageModel) -> None:
    """A walker's context costs what scoring the context as a row costs."""
    ids = _sequences(model, 1)[0]
    with _open(model, ids) as walker:
        _close(model, walker.context_log_probs, model.score(Rows.of([ids[:_CONTEXT]])))


def walk_equals_score(model: LanguageModel) -> None:
    """Tokens scored one by one below cached states cost what they cost in a whole row."""
    for ids in _sequences(model, 3):
        whole = model.score(Rows.of([ids], _CONTEXT))
        walked = chain_log_probs(model, np.array([ids]), split=_CONTEXT)[0, -_BELOW:]
        _close(model, walked, whole)


def distributions_are_normalised(model: LanguageModel) -> None:
    """Probabilities of all next tokens sum to one, at the root and below it."""
    ids = _sequences(model, 1)[0]
    everything = _children(*range(model.facts.vocabulary))
    with _open(model, ids) as walker:
        answer = walker.expand(nodes_of([_below(ids, 0), _below(ids, 3)]), everything)
    for total in np.exp(answer.log_probs.astype(np.float64)).sum(axis=1).tolist():
        within = abs(np.log(total)) <= model.facts.excess_nats
        assert within, f"probabilities sum to {total}"


def order_does_not_matter(model: LanguageModel) -> None:
    """Rows keep their scores when they change places."""
    rows = Rows.of(_sequences(model, 8), _CONTEXT)
    order = np.array([3, 1, 7, 0, 2, 6, 5, 4])
    there = model.score(rows).reshape(8, -1)[order]
    _close(model, model.score(rows.take(order)).reshape(8, -1), there)


def padding_does_not_matter(model: LanguageModel) -> None:
    """Rows of different lengths score as they do alone, from any start."""
    rows = [ids[: _CONTEXT + 1 + i] for i, ids in enumerate(_sequences(model, 6))]
    starts = [1, 2, 3, 4, 5, 5]
    together = model.score(Rows.of(rows, starts))
    alone = [model.score(Rows.of([r], s)) for r, s in zip(rows, starts, strict=True)]
    _close(model, together, np.concatenate(alone))


def start_selects_tokens(model: LanguageModel) -> None:
    """Scoring from a later start gives the end of scoring from the first."""
    rows = _sequences(model, 4)
    whole = model.score(Rows.of(rows)).reshape(4, -1)
    late = model.score(Rows.of(rows, 4)).reshape(4, -1)
    _close(model, late, whole[:, 3:])


def forced_tokens_are_priced(model: LanguageModel) -> None:
    """`path_log_probs` is the sum over the tokens that had no score yet."""
    ids = _sequences(model, 1)[0]
    below = _below(ids)
    whole = model.score(Rows.of([ids], _CONTEXT)).astype(np.float64)
    with _open(model, ids) as walker:
        held = walker.expand(nodes_of([below[:2]]), _children(below[2]))
        for priced in (0, 1, 2, 3, 5):  # 2: the cached state's own next token
            nodes = nodes_of([below[:5]], priced=priced, handles=held.handles)
            found = walker.expand(nodes, _children(below[5]))
            _close(model, found.path_log_probs[0], whole[priced:5].sum())
            _close(model, found.log_probs[0, 0], whole[5])


def children_of_each_node(model: LanguageModel) -> None:
    """Children given node by node cost what they cost in a union."""
    paths = [_below(ids, 3) for ids in _sequences(model, 4)]
    picks = [[0], [4, 1], [], [2, 0, 3]]
    flat = Children(np.array([0, 4, 1, 2, 0, 3], np.int32), np.array([0, 1, 3, 3, 6]))
    with _open(model, _sequences(model, 1)[0]) as walker:
        table = walker.expand(nodes_of(paths), _children(*range(5))).log_probs
        found = walker.expand(nodes_of(paths), flat).log_probs
    wanted = [table[node, token] for node, tokens in enumerate(picks) for token in tokens]
    _close(model, found, np.array(wanted))


def lengths_may_be_mixed(model: LanguageModel) -> None:
    """Nodes of all lengths in one batch, the root among them, cost what they cost alone."""
    below = _below(_sequences(model, 1)[0])
    paths = [below[:n] for n in (3, 0, 5, 1, 3, 2)]
    tokens = _children(*range(4))
    with _open(model, _sequences(model, 1)[0]) as walker:
        together = walker.expand(nodes_of(paths), tokens)
        for i, path in enumerate(paths):
            alone = walker.expand(nodes_of([path]), tokens, keep=False)
            _close(model, together.log_probs[i], alone.log_probs[0])


def released_handles_are_recomputed(model: LanguageModel) -> None:
    """A handle that went stale, even when its place was taken, changes no number."""
    first, second = _sequences(model, 2)
    a, b = _below(first), _below(second)
    tokens = _children(*range(4))
    with _open(model, first) as walker:
        held = walker.expand(nodes_of([a[:2]]), tokens)
        right = walker.expand(nodes_of([a[:3]], handles=held.handles), tokens, keep=False)
        walker.release(held.handles)
        walker.release(held.handles)  # letting go twice is harmless
        others = walker.expand(nodes_of([b[:1], b[:2]]), tokens)  # takes the free places
        stale = walker.expand(nodes_of([a[:3]], handles=held.handles), tokens, keep=False)
        _close(model, stale.log_probs, right.log_probs)
        assert stale.queries >= right.queries
        assert (others.handles != held.handles[0]).all() or (others.handles == -1).all()


def ancestors_outlive_their_release(model: LanguageModel) -> None:
    """Letting go of a state, even twice, takes nothing from those below it."""
    context, other = _sequences(model, 2)
    below, filler = _below(context), _below(other)
    tokens = _children(*range(4))
    with _open(model, context) as walker:
        room = walker.room
        above = walker.expand(nodes_of([below[:1]]), tokens)
        held = walker.expand(nodes_of([below[:2]], handles=above.handles), tokens)
        right = walker.expand(nodes_of([below[:3]]), tokens, keep=False)
        walker.release(above.handles)
        walker.release(above.handles)
        more = walker.expand(nodes_of([filler[:1], filler[:2]]), tokens)
        found = walker.expand(nodes_of([below[:3]], handles=held.handles), tokens, keep=False)
        _close(model, found.log_probs, right.log_probs)
        walker.release(np.concatenate([held.handles, more.handles, above.handles]))
        assert walker.room == room


def memory_is_bounded(model: LanguageModel) -> None:
    """What does not fit gets no handle, and costs the same; released room comes back."""
    context = _sequences(model, 1)[0]
    paths = [_below(ids, 2) for ids in _sequences(model, 24)]
    tokens = _children(*range(4))
    small = 16 * model.memory().bytes_per_held_token
    with _open(model, context) as roomy:
        right = roomy.expand(nodes_of(paths), tokens).log_probs
    with model.open(Context(np.array(context[:_CONTEXT], np.int32)), memory_bytes=small) as walker:
        room = walker.room
        answers = [walker.expand(nodes_of([path]), tokens) for path in paths]
        held = np.concatenate([answer.handles for answer in answers])
        assert (held == -1).any(), "24 nodes were held in the memory of 16"
        assert walker.room == 0
        _close(model, np.concatenate([answer.log_probs for answer in answers]), right)
        deeper = walker.expand(nodes_of(paths[:1], handles=held[:1]), tokens, keep=False)
        _close(model, deeper.log_probs[0], right[0])
        walker.release(held)
        assert walker.room == room


def held_nodes_cost_one_query(model: LanguageModel) -> None:
    """With its parent held, a node is one query; the root is none."""
    if "reuse" not in model.facts.capabilities:
        return
    ids = _sequences(model, 1)[0]
    tokens = _children(*range(3))
    with _open(model, ids) as walker:
        root = walker.expand(nodes_of([[]]), tokens)
        assert root.queries == 0
        level = walker.expand(nodes_of([[0], [1], [2]]), tokens)
        assert level.queries == 3
        paths = [[a, b] for a in range(3) for b in range(3)]
        below = walker.expand(nodes_of(paths, handles=np.repeat(level.handles, 3)), tokens)
        assert below.queries == 9
        # Without handles the three parents are computed again, once each.
        again = walker.expand(nodes_of(paths), tokens, keep=False)
        assert again.queries == 12
        _close(model, again.log_probs, below.log_probs)


def moments_are_those_of_the_distributions(model: LanguageModel) -> None:
    """Mean and deviation at each place, where told, follow from all next tokens there."""
    if not isinstance(model, TellsMoments):
        return
    sequences = _sequences(model, 3)
    found = model.moments(Rows.of(sequences, _CONTEXT))
    _close(model, found.log_probs, model.score(Rows.of(sequences, _CONTEXT)))
    everything = _children(*range(model.facts.vocabulary))
    tables = []
    for ids in sequences:
        with _open(model, ids) as walker:
            paths = [_below(ids, n) for n in range(_BELOW)]
            tables.append(walker.expand(nodes_of(paths), everything).log_probs)
    log_probs = np.concatenate(tables).astype(np.float64)
    probs = np.exp(log_probs)
    finite = np.where(probs > 0.0, log_probs, 0.0)
    means = (probs * finite).sum(axis=1)
    deviations = np.sqrt((probs * (finite - means[:, None]) ** 2).sum(axis=1))
    _close(model, found.means, means.astype(np.float32))
    _close(model, found.deviations, deviations.astype(np.float32))


CHECKS: tuple[Callable[[LanguageModel], None], ...] = (
    asked_twice,
    batch_size_does_not_matter,
    later_tokens_do_not_matter,
    context_is_priced,
    walk_equals_score,
    distributions_are_normalised,
    order_does_not_matter,
    padding_does_not_matter,
    start_selects_tokens,
    forced_tokens_are_priced,
    children_of_each_node,
    lengths_may_be_mixed,
    released_handles_are_recomputed,
    ancestors_outlive_their_release,
    memory_is_bounded,
    held_nodes_cost_one_query,
    moments_are_those_of_the_distributions,
)

WHOLE_VOCABULARY = frozenset({distributions_are_normalised, moments_are_those_of_the_distributions})
"""Checks that ask for every token of the vocabulary below several nodes."""


def _sequences(model: LanguageModel, count: int) -> list[list[int]]:
    """Random sequences of `TOKENS` tokens; the first is always the same."""
    return random_rows(model, count, TOKENS, seed=7).tolist()  # type: ignore[no-any-return]


def _below(ids: list[int], length: int = _BELOW) -> list[int]:
    return ids[_CONTEXT : _CONTEXT + length]


def _open(model: LanguageModel, ids: list[int]) -> Walker:
    return opened(model, ids[:_CONTEXT])


def _children(*tokens: int) -> Children:
    return Children(np.array(tokens, np.int32))


def _close(model: LanguageModel, given: object, wanted: object) -> None:
    """Equal to within the noise of a candidate of this length."""
    given, wanted = np.asarray(given, np.float64), np.asarray(wanted, np.float64)
    same = given == wanted  # both may be minus infinity
    difference = np.abs(np.where(same, 0.0, given) - np.where(same, 0.0, wanted))
    noise = model.facts.noise_bits(TOKENS) * LN2
    if "reuse" in model.facts.capabilities:
        noise = min(noise, rounding(model.facts) * TOKENS)
    worst = float(difference.max(initial=0.0))
    if (seen := _differences.get(None)) is not None:
        seen.append(worst)
    if not worst <= noise:
        raise DeviationError(worst, noise)
