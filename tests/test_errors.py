"""The tree of errors: as drawn, complete, and able to travel between processes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from canary import errors
from canary.errors import CanaryError

KINDS = [value for value in vars(errors).values() if inspect.isclass(value)]


def test_every_error_is_of_the_tree_and_says_what_it_is():
    assert all(issubclass(kind, CanaryError) for kind in KINDS)
    assert all(kind.__doc__ for kind in KINDS)


def test_the_tree_is_as_drawn():
    """Depth and foreign bases in the module's docstring are those of the classes."""
    drawn = {}
    stack: list[str] = []
    for line in errors.__doc__.splitlines():
        found = re.match(r"    ([│├└─ ]*)(\w+)(?: \(also (\w+)\))?", line)
        if found and hasattr(errors, found[2]):
            depth = len(found[1]) // 4
            stack[depth:] = [found[2]]
            parents = {stack[depth - 1]} if depth else {"Exception"}
            drawn[found[2]] = parents | ({found[3]} if found[3] else set())
    assert drawn == {kind.__name__: {base.__name__ for base in kind.__bases__} for kind in KINDS}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "it broke"),
        ({"cure": "mend it"}, "it broke; mend it"),
        ({"where": "x.jsonl:3"}, "x.jsonl:3: it broke"),
        ({"cure": "mend it", "where": "x.jsonl:3"}, "x.jsonl:3: it broke; mend it"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_messages_and_travel(kind, options, text):
    error = kind("it broke", **options)
    assert str(error) == text
    for other in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind
        assert str(other) == text
        assert other.problem == "it broke"
        assert (other.cure, other.where) == (options.get("cure", ""), options.get("where", ""))


def test_cure_and_place_are_given_by_name():
    with pytest.raises(TypeError):
        CanaryError("it broke", "mend it")
