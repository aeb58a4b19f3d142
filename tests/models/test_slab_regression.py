"""What the slab does when a step fails, and what its slots do in any order of calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import build

from canary.errors import OutOfMemory
from canary.models.language_model import Children, Context
from canary.models.noise import nodes_of
from canary.models.state_cache import NONE, Slots


@pytest.mark.parametrize(
    ("name", "fails_at"), [("table", 1), ("table", 2), ("lstm", 3), ("gpt2", 2), ("gpt2", 3)]
)
def test_an_expand_that_raises_takes_no_handles(name: str, fails_at: int, monkeypatch) -> None:
    """Ctrl-C or a full memory in any step leaves the walker as it was."""
    tokens = Children(np.arange(3, dtype=np.int32))
    with build(name).open(Context(np.array([1, 2], np.int32)), memory_bytes=2**20) as walker:
        held = walker.expand(nodes_of([[4]]), tokens)
        room, step, calls = walker.room, walker._step, []

        def failing(*arguments):
            calls.append(arguments)
            if len(calls) == fails_at:
                raise KeyboardInterrupt
            return step(*arguments)

        monkeypatch.setattr(walker, "_step", failing)
        deep = nodes_of([[4, 5, 6], [7, 8, 9], [7, 8]])  # three levels of steps
        with pytest.raises(KeyboardInterrupt):
            walker.expand(deep, tokens)
        monkeypatch.undo()
        assert walker.room == room
        one_level = nodes_of([[4, 5]], handles=held.handles)
        monkeypatch.setattr(walker, "_step", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            walker.expand(one_level, tokens)
        monkeypatch.undo()
        assert walker.room == room
        assert walker.expand(one_level, tokens).queries == 1  # the cached state still serves


@settings(max_examples=60)
@given(st.data())
def test_slots_property(data) -> None:
    """Whatever is taken and dropped: chains stay whole, nothing leaks, stale is known."""
    slots = Slots(12)
    held: list[tuple[int, int, int]] = []  # handle, slot, parent slot
    gone: list[int] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if held and data.draw(st.booleans()):
            handle, slot, _ = held.pop(data.draw(st.integers(0, len(held) - 1)))
            assert slots.resolve(np.array([handle]))[0] == slot
            slots.drop(np.array([slot]))
            gone.append(handle)
        else:
            parent = data.draw(st.sampled_from([NONE, *(h[1] for h in held)]))
            try:
                (slot,) = slots.take(0, np.array([parent]))
            except OutOfMemory:
                assert slots.free == 0
                continue
            assert slot not in {h[1] for h in held}
            held.append((int(slots.handles(np.array([slot]))[0]), int(slot), int(parent)))
        for handle, slot, parent in held:
            assert slots.parent[slot] == parent
            assert slots.resolve(np.array([handle]))[0] == slot
        assert (slots.resolve(np.array([*gone, -1])) == NONE).all()
    slots.drop(np.array([h[1] for h in held], np.int64))
    assert slots.free == 12


def test_slots_take_all_or_nothing() -> None:
    slots = Slots(3)
    with pytest.raises(OutOfMemory, match="memory_bytes"):
        slots.take(1, np.full(4, NONE))
    assert slots.free == 3
