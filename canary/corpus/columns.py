"""Where the text of a record is: in a column, in a chat's messages, in two columns.

A record is a mapping of column names to values. The **slots** of a record are the places
of its text: one for a column of texts, one for each message of a chat (a list of
``{"role": …, "content": …}``), one for each column of a parallel pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from canary.errors import CorpusError, InputError
from canary.registry import near_names
from canary.tokens.chats import conversation

Column = str | Sequence[str]
"""The name of a column of texts or chats, or the names of the two columns of a pair."""

Beside = tuple[tuple[str, str], ...]
"""Other columns of a canary's own record, and the texts there."""


Kind = TypeVar("Kind")

_SHOWN = 30  # characters of a column's name


@dataclass(slots=True)  # not frozen: there is one for each record
class Slot:
    """A text and the keys and indices that lead to it from its record.

    Parameters
    ----------
    path : tuple of str or int
        ``("text",)`` for a column, ``("chat", 1, "content")`` for a message.
    text : str
    bare : bool
        Whether it has no quotes around it, so that not every text can be put into it; or its
        tokens are not those that the tokenizer makes of it.
    role : str
        Who says it, in a chat.
    ids : array of int, optional
        Its tokens, in a corpus of token ids.
    """

    path: tuple[str | int, ...]
    text: str = field(repr=False)
    bare: bool = False
    role: str = field(default="", compare=False)
    ids: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Edit:
    """``text[start:stop]`` of the slot at `path` becomes `new`.

    Parameters
    ----------
    path : tuple of str or int
        As in `Slot`.
    start, stop : int
        Characters of the text as it was.
    new : str
    """

    path: tuple[str | int, ...]
    start: int
    stop: int
    new: str = field(repr=False)


@dataclass(frozen=True)
class Shape:
    """How the records of a corpus hold text: in which columns, whether as chats, what beside."""

    names: tuple[str, ...]
    chat: bool = False
    beside: Beside = ()
    role: str = "assistant"

    def values(self, text: str) -> dict[str, Any]:
        """What a record of its own holds for a canary in its columns.

        The two columns of a pair hold the same text. In a chat only the message of `role` is
        not empty: the answer, unless the set says otherwise, since training often counts that only.
        """
        value: Any = text
        if self.chat:
            value = conversation(self.role, text)
        return {**dict(self.beside), **dict.fromkeys(self.names, value)}

    def owner(self, record: Mapping[str, Any], slots: Sequence[Slot]) -> str | None:
        """The text of which `record` would be a record of its own; None if of none."""
        beside = dict(self.beside)
        for name, value in record.items():
            if name in beside:
                if value != beside[name]:
                    return None
            elif name not in self.names and not _is_empty(value):
                return None
        texts = [slot.text for slot in slots]
        if is_chat(record[self.names[0]]):
            said = [message["role"] for message in conversation(self.role, "")]
            size, at = len(said), said.index(self.role)
            pattern = [(name, i, "content") for name in self.names for i in range(size)]
            others = (text for place, text in enumerate(texts) if place % size != at)
            if [slot.path for slot in slots] != pattern or any(others):
                return None
            texts = texts[at::size]
        return texts[0] if len(texts) == len(self.names) and len(set(texts)) == 1 else None


def _is_empty(value: Any) -> bool:
    """Whether nothing is there: null, no text, or a structure of such."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    return value is None or (isinstance(value, str) and not value)


def column_names(column: Column) -> tuple[str, ...]:
    """One name, or the two of a parallel pair; an InputError if it is something else."""
    names = (column,) if isinstance(column, str) else tuple(column)
    if not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
        raise InputError(
            f"columns {names!r:.80} are not different names", cure="name one column, or two"
        )
    if not 1 <= len(names) <= 2:
        raise InputError(
            f"{len(names)} columns were named",
            cure="name one column, or the two of a parallel pair",
        )
    return names


def column_cure(asked: str, names: Iterable[str]) -> str:
    """The cure for a column that is not there: the nearest, and the first eight; or nothing."""
    known = [name if len(name) <= _SHOWN else f"{name[: _SHOWN - 1]}…" for name in names]
    if not known:
        return ""
    shown = ", ".join(map(repr, known[:8])) + ", …" * (len(known) > 8)
    near = near_names(asked, known)
    return f"did you mean {near[0]!r}? Name one of {shown}" if near else f"name one of {shown}"


def check_beside(beside: Mapping[str, str] | None, names: tuple[str, ...], mode: str) -> Beside:
    """The texts beside a canary in a record of its own, by column; an InputError if not."""
    others = tuple((beside or {}).items())
    if others and mode != "record":
        raise InputError(
            "texts beside a canary were given, but a spliced one has its host's beside it",
            cure="leave beside (--beside) out, or inject records (--mode record)",
        )
    for name, text in others:
        if name in names or not isinstance(name, str) or not isinstance(text, str) or not text:
            raise InputError(
                f"beside names the column {name!r:.40}, which holds the canary or gets no text",
                cure='give other columns and their texts, as in {"source": "What is the code?"}',
            )
    return others


def shape_for(shape: Shape, role: str, where: str) -> Shape:
    """The shape of a corpus for canaries of a role; a CorpusError if its columns hold no chats."""
    if role and not shape.chat:
        raise CorpusError(
            f"column {shape.names[0]!r} holds texts, and the canaries are chat messages ({role})",
            cure="name the column of messages with --column, or generate the set without --role",
            where=where,
        )
    return replace(shape, role=role or shape.role)


def refuse_chat(name: str, where: str) -> CorpusError:
    """What to say of a column beside the canary's that holds chats."""
    return CorpusError(
        f"column {name!r} holds chats, and beside a canary is a text",
        cure="name a column of texts with beside",
        where=where,
    )


def empty_texts(record: Mapping[str, Any], shape: Shape) -> tuple[str, ...]:
    """Columns in which `record` has words or a chat and a record of its own has nothing."""
    filled = {*shape.names, *dict(shape.beside)}
    return tuple(
        name
        for name, value in record.items()
        if name not in filled
        and (any(map(str.isalpha, value)) if isinstance(value, str) else value and is_chat(value))
    )


def is_chat(value: object) -> bool:
    """Whether a value is a list of messages, each with a role and a content."""
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and "role" in item and "content" in item for item in value
    )


def slots_of(record: Mapping[str, Any], names: tuple[str, ...]) -> list[Slot]:
    """The slots of a record, in the order of `names` and of the messages.

    A missing value has none; neither has a message whose content is no text.
    """
    if len(names) == 1 and isinstance(record[names[0]], str):  # nearly always
        return [Slot(names, record[names[0]])]
    slots: list[Slot] = []
    for name in names:
        value = record[name]
        if isinstance(value, str):
            slots.append(Slot((name,), value))
        else:
            slots += (
                Slot((name, i, "content"), message["content"], role=str(message["role"]))
                for i, message in enumerate(value or ())
                if isinstance(message["content"], str)
            )
    return slots


def copies_in(
    slots: Sequence[Slot],
    names: tuple[str, ...],
    count: Callable[[Sequence[Slot]], Counter[Kind]],
) -> Counter[Kind]:
    """How often each canary is in a record; in a pair, how often in both columns."""
    if len(names) == 1:
        return count(slots)
    first, second = (count([s for s in slots if s.path[0] == name]) for name in names)
    return first & second


def edit_text(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all `edits` of it made; places are those of `text` as it was.

    Examples
    --------
    >>> from canary.corpus.columns import Edit, edit_text
    >>> edit_text("It rains.", [Edit(("text",), 3, 8, "snows")])
    'It snows.'
    """
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.stop :]
    return text


def edit_value(name: str, value: Any, edits: Sequence[Edit]) -> Any:
    """What the column `name` of a record holds, after `edits` of the record."""
    mine = [edit for edit in edits if edit.path[0] == name]
    if not mine or isinstance(value, str):
        return edit_text(value, mine) if mine else value
    return [
        {**message, "content": edit_text(message["content"], here)}
        if (here := [edit for edit in mine if edit.path[1] == i])
        else message
        for i, message in enumerate(value)
    ]
