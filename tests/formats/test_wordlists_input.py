"""Word lists in files, as the command line reads them."""

from __future__ import annotations

import pytest

from canary.errors import FormatError, InputError
from canary.formats.wordlists import read_words, with_words


def test_words_are_read_once_each(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeffnorth\r\nsouth  east\nnorth\n\n".encode())
    assert read_words(path) == ["north", "south", "east"]


def test_only_formats_with_words_get_them():
    one, two = with_words(["{word:2}", "{digit:9}"], ["north", "south"])
    assert (one.size, one.words, two.words) == (4, ("north", "south"), None)
    with pytest.raises(FormatError, match="no hole uses them"):
        with_words(["{digit:9}"], ["north"])


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read"), (b" \n", "is empty"), (b"north \xff", "not UTF-8 at byte 6")],
)
def test_files_that_hold_no_words(tmp_path, content, problem):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=problem) as caught:
        read_words(path)
    assert "words.txt" in caught.value.where
    assert caught.value.cure
