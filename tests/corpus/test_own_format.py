"""A file format of somebody's own is one class: all that is done with corpora works with it."""

from __future__ import annotations

import gzip
from doctest import DocTestParser

import pytest

from canary.corpus.canaries import generate
from canary.corpus.columns import Slot, edit_text
from canary.corpus.discovery import discover
from canary.corpus.file_formats import FILE_FORMATS
from canary.corpus.injection import inject, inject_file
from canary.corpus.line_corpus import LineCorpus
from canary.corpus.lines import decode
from canary.corpus.stripping import strip
from canary.corpus.verification import verify

CANARIES = generate("The code is {digit:6}.", repetitions=[1, 3], per_repetition=2, seed=0)


class Quotations(LineCorpus):
    """A text between guillemets on each line, behind the name of its author."""

    endings = (".quotes",)
    separators = (" ", " ")

    def read(self, piece, number, names):
        author, _, text = decode(piece, self.path, number, what="quotations").partition(": «")
        if not text:
            return None
        text = text.rstrip("\n").removesuffix("»")
        return {"text": text, "author": author}, [Slot(("text",), text)]

    def render(self, text):
        return f": «{text}»\n".encode()

    def edit(self, piece, edits):
        author, _, text = piece.decode().partition(": «")
        return f"{author}: «{edit_text(text, edits)}".encode()


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(FILE_FORMATS, "_things", {**FILE_FORMATS._things, "quotes": Quotations})


@pytest.mark.parametrize("mode", ["record", "splice"])
def test_a_format_in_one_class(tmp_path, registered, mode):
    source, mixed, back = (tmp_path / f"{name}.quotes.gz" for name in ("in", "out", "back"))
    content = "\n".join(f"Ann: «It is {n}. It rains.»" for n in range(50)).encode() + b"\n\n"
    source.write_bytes(gzip.compress(content))
    places = inject_file(source, mixed, CANARIES, mode=mode)
    assert verify(mixed, CANARIES).ok
    assert places.total_lines == 51 + 8 * (mode == "record")
    assert discover(source, "It is {digit:1}.").injected[0].fill == "0"
    assert strip(mixed, CANARIES, out=back) == back
    assert gzip.decompress(back.read_bytes()) == content
    assert inject(source, CANARIES, out=back, mode=mode) == back
    assert back.read_bytes() == mixed.read_bytes()


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize("mode", ["record", "splice"])
@pytest.mark.parametrize("closes", [True, False])
def test_records_of_several_lines(tmp_path, registered, mode, end, closes):
    """Nothing is added to a last record that has no end, even if `closed` is not overridden."""
    example = {"__name__": "example"}
    for line in DocTestParser().get_examples(LineCorpus.__doc__):
        exec(line.source, example)
    FILE_FORMATS.add("poems", example["Poems"])
    if not closes:
        del FILE_FORMATS["poems"].closed
    source, mixed, back = (tmp_path / f"{name}.poems" for name in ("in", "out", "back"))
    source.write_text(content := f"A title\n\nOne.\nIs it?\n\nTwo.{end}")
    last = set()
    for seed in range(6):
        inject_file(source, mixed, CANARIES, mode=mode, seed=seed)
        assert mixed.read_text().startswith("A title\n\n")
        last.add(mixed.read_text().endswith(f"Two.{end}"))
        found = verify(mixed, CANARIES)
        assert (found.ok, found.records) == (True, 2 + 8 * (mode == "record"))
        strip(mixed, CANARIES, out=back)
        assert back.read_text() == content
    assert last == {True} if mode == "record" and not (closes and end == "\n\n") else False in last


def test_files_in_and_out_by_the_general_functions(tmp_path):
    (tmp_path / "in.txt").write_text("A text.\n" * 9)
    for function in (inject, strip):
        with pytest.raises(ValueError, match="name the file to write"):
            function(tmp_path / "in.txt", CANARIES)
