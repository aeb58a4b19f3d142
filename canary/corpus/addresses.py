"""Files that are elsewhere, which `fsspec` reads, and lists of files."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from glob import has_magic
from hashlib import sha256
from pathlib import Path, PosixPath
from typing import IO, Any

from canary.errors import CanaryError, CorpusError, MissingExtraError, UnsupportedError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])")


class Remote(PosixPath):
    """A file at an address such as ``s3://bucket/key``: of a path, what reading needs."""

    address: str

    def __new__(cls, address: str) -> Remote:
        made = super().__new__(cls, address)
        made.address = address
        return made

    def __str__(self) -> str:
        return self.__dict__.get("address") or super().__str__()

    def __reduce__(self) -> Any:
        return Remote, (self.address,)

    def open(self, *args: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        """The file, open for reading in binary."""
        with _asked(self.address) as (there, place):
            file: IO[Any] = there.open(place, "rb")
            return file

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Its size, whether it is a file, and as the inode what changes when it is changed."""
        with _asked(self.address) as (there, place):
            about = there.info(place)
            if about["type"] != "directory" and about["size"] is None:
                raise OSError("the server does not say how large it is")
            mode = stat.S_IFDIR if about["type"] == "directory" else stat.S_IFREG
            version = int(sha256(str(there.ukey(place)).encode()).hexdigest()[:15], 16)
        return os.stat_result((mode, version, 0, 1, 0, 0, about["size"] or 0, 0, 0, 0))

    def is_file(self) -> bool:
        """Whether it is a file."""
        return stat.S_ISREG(self.stat().st_mode)

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.stat().st_mode)

    def resolve(self, strict: bool = False) -> Remote:  # noqa: FBT001, FBT002 - as in pathlib
        """The same: an address has no links."""
        return self

    def found(self) -> tuple[list[Remote], Remote, bool]:
        """The files that it names, their folder, and whether it is a pattern."""
        with _asked(self.address) as (there, place):
            pattern = has_magic(self.address) and not there.exists(place)
            if not pattern and not there.isdir(place):
                return [self], self, False
            names = there.glob(place) if pattern else there.find(place)
            found = [Remote(there.unstrip_protocol(name)) for name in names]
            return found, Remote(there.unstrip_protocol(place)), pattern


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address that a name is, also where `pathlib` took a slash of it; None of a path."""
    if isinstance(path, Remote):
        return path.address
    text = os.fspath(path)
    found = _ADDRESS.match(text)
    if not found or os.path.lexists(text):
        return None
    slashes = ":///" if found[1] in ("file", "local") else "://"
    return f"{found[1]}{slashes}{text[found.end() :]}"


def place_of(path: str | os.PathLike[str]) -> Path:
    """What a name means: a path here, or a `Remote`."""
    address = address_of(path)
    if address is not None:
        return Remote(address)
    return path if isinstance(path, Path) else Path(path)


def check_here(*paths: str | os.PathLike[str]) -> None:
    """Refuse what is elsewhere, by an UnsupportedError: files are written here only."""
    for address in filter(None, map(address_of, paths)):
        raise UnsupportedError(
            "is not on this machine, and canaries are put in and taken out of files here",
            cure="copy the corpus here and the result back; verify, discover and duplicates read "
            "addresses",
            where=address,
        )


def is_list(corpus: Any) -> bool:
    """Whether a corpus is named as a list of its files: ``@FILE``."""
    if not isinstance(corpus, str | os.PathLike):
        return False
    return os.fspath(corpus).startswith("@") and not os.path.lexists(corpus)


def listed_in(corpus: str | os.PathLike[str]) -> list[Path]:
    """What the lines of a list name; paths are relative to the list."""
    if not is_list(corpus):
        return [place_of(corpus)]
    file = Path(os.fspath(corpus)[1:])
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        cure = "after @ name a text file with a path on each line"
        raise CorpusError(f"cannot be read ({reason})", cure=cure, where=str(file)) from error
    named = [place_of(line) for line in map(str.strip, lines) if line]
    if not named:
        raise CorpusError("names no file", cure="write a path on each line", where=str(file))
    return [place if isinstance(place, Remote) else file.parent / place for place in named]


@contextmanager
def _asked(address: str) -> Iterator[tuple[Any, str]]:
    """The file system of an address, and its place there; what goes wrong becomes an OSError."""
    from fsspec.core import url_to_fs

    try:
        yield url_to_fs(address)
    except ImportError as error:
        raise MissingExtraError(
            f"cannot be read ({error})", cure="pip install what it names", where=address
        ) from error
    except (OSError, CanaryError):
        raise
    except Exception as error:  # of the library behind it
        raise OSError(str(error) or type(error).__name__) from error
