"""Files that are elsewhere, which `fsspec` reads and writes."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from glob import has_magic
from hashlib import sha256
from pathlib import Path, PosixPath, PurePosixPath
from typing import IO, Any

from canary.errors import CanaryError, MissingExtraError, OutputError

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/+(?=[^/])")
_HERE = ("file", "local")
_AT_ONCE = {"abfs", "abfss", "az", "cos", "gcs", "gs", "hf", "obs", "oci", "oss", "s3", "s3a"}
"""Storages in which a file appears whole or not at all."""
_VERSIONS = ("ETag", "etag", "generation", "mtime", "LastModified", "last_modified", "created")
_CURES: tuple[tuple[type[OSError], str], ...] = (
    (PermissionError, "give your credentials the right to list, write and delete files there"),
    (FileNotFoundError, "make the bucket or folder first, or correct the address"),
    (OSError, "check the address, your credentials and the connection, or name a folder here"),
)


class Remote(PosixPath):
    """A file at an address such as ``s3://bucket/key``: of a path, what corpora need.

    It has no lock: two processes that write one address replace each other's files.
    """

    address: str

    def __new__(cls, address: str) -> Remote:  # noqa: D102 - as the class says
        made = super().__new__(cls, address)
        made.address = address
        return made

    def __str__(self) -> str:
        return self.__dict__.get("address") or super().__str__()

    def __reduce__(self) -> Any:
        return Remote, (self.address,)

    def with_segments(self, *segments: str | os.PathLike[str]) -> Path:
        """Whatever `pathlib` makes of it is a path, which only has a name."""
        return Path(*segments)

    def __truediv__(self, name: str | os.PathLike[str]) -> Remote:
        return Remote(f"{self.address.rstrip('/')}/{os.fspath(name)}")

    @property
    def parent(self) -> Remote:
        """The folder that it is in."""
        return Remote(self.address.rstrip("/").rpartition("/")[0])

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
            # A listing and a look at one file have other fields around these.
            known = next((about[name] for name in _VERSIONS if about.get(name)), None)
            version = f"{place} {known or there.ukey(place)}"
            inode = int(sha256(version.encode()).hexdigest()[:15], 16)
        return os.stat_result((mode, inode, 0, 1, 0, 0, about["size"] or 0, 0, 0, 0))

    lstat = stat

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether something is there."""
        with _asked(self.address) as (there, place):
            return bool(there.exists(place))

    def is_file(self) -> bool:
        """Whether it is a file."""
        with _asked(self.address) as (there, place):
            return bool(there.isfile(place))

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        with _asked(self.address) as (there, place):
            return bool(there.isdir(place))

    def resolve(self, strict: bool = False) -> Remote:  # noqa: FBT001, FBT002 - as in pathlib
        """The same address as its storage writes it; it has no links."""
        with _asked(self.address) as (there, place):
            return Remote(there.unstrip_protocol(place))

    def rglob(self, pattern: str) -> Iterator[Remote]:  # type: ignore[override]
        """All files in it."""
        assert pattern == "*"
        with _asked(self.address) as (there, place):
            there.invalidate_cache()
            names = there.find(place)
        return (Remote(there.unstrip_protocol(name)) for name in names)

    def iterdir(self) -> Generator[Remote, None, None]:
        """What is in it, without what is in folders there."""
        with _asked(self.address) as (there, place):
            names = there.ls(place, detail=False)
        return (Remote(there.unstrip_protocol(name)) for name in names)

    def found(self) -> tuple[list[Remote], Remote, bool]:
        """The files that it names, their folder, and whether it is a pattern."""
        if self.is_pattern():
            with _asked(self.address) as (there, place):
                names = there.glob(place)
            return [Remote(there.unstrip_protocol(name)) for name in names], self, True
        return ([*self.rglob("*")] if self.is_dir() else [self]), self.resolve(), False

    def is_pattern(self) -> bool:
        """Whether it names files by a pattern."""
        return has_magic(self.address) and not self.exists()

    def unlink(self, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as in pathlib
        """Remove it."""
        with _written(self.address) as (there, place):
            there.rm_file(place)

    @contextmanager
    def writer(self) -> Iterator[IO[bytes]]:
        """A file on this machine that becomes this one when the block ends well."""
        with tempfile.NamedTemporaryFile() as file:
            yield file
            file.flush()
            self._put(file.name)

    def check_writable(self, *, folder: bool = False) -> None:
        """Write and remove an empty file beside it, or in it; an OutputError if that fails."""
        trial = (self if folder else self.parent) / f".{self.name}.trial"
        try:
            with tempfile.NamedTemporaryFile() as empty:
                trial._put(empty.name)
            trial.unlink()
        except OutputError as error:
            error.where = self.address
            raise

    def _put(self, file: str) -> None:
        with _written(self.address) as (there, place):
            names = there.protocol
            if _AT_ONCE.intersection([names] if isinstance(names, str) else names):
                there.put_file(file, place)
                return
            folder = there._parent(place)
            part = f"{folder.rstrip('/')}/.{self.name}.underway.part"
            there.makedirs(folder, exist_ok=True)
            try:
                there.put_file(file, part)
                there.mv(part, place)
            except BaseException:
                with suppress(Exception):
                    there.rm_file(part)
                raise


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address that a name is, also where `pathlib` took a slash of it; None of a path."""
    if isinstance(path, Remote):
        return path.address
    text = os.fspath(path)
    found = _ADDRESS.match(text)
    if not found or os.path.lexists(text):
        return None
    slashes = ":///" if found[1] in _HERE else "://"
    return f"{found[1]}{slashes}{text[found.end() :]}"


def place_of(path: str | os.PathLike[str]) -> Path:
    """What a name means: a path here, also of an address ``file:///PATH``; or a `Remote`."""
    address = address_of(path)
    if address is None:
        return path if isinstance(path, Path) else Path(path)
    protocol, _, rest = address.partition("://")
    return Path(rest) if protocol in _HERE else Remote(address)


def beside(output: Path, ending: str) -> Path:
    """A file on this machine that goes with an output: beside it, of an address in this folder."""
    name = f"{output.name}{ending}"
    return Path(name) if isinstance(output, Remote) else output.with_name(name)


def as_names(path: Path) -> PurePosixPath:
    """A path as the names that it is made of, in which an address begins with its protocol."""
    return PurePosixPath(str(path))


@contextmanager
def _asked(address: str) -> Iterator[tuple[Any, str]]:
    """The file system of an address, and its place there; what goes wrong becomes an OSError."""
    from fsspec.core import url_to_fs

    try:
        yield url_to_fs(address)
    except ImportError as error:
        raise MissingExtraError(
            f"cannot be reached ({error})", cure="pip install what it names", where=address
        ) from error
    except (OSError, CanaryError):
        raise
    except Exception as error:  # of the library behind it
        raise OSError(str(error) or type(error).__name__) from error


@contextmanager
def _written(address: str) -> Iterator[tuple[Any, str]]:
    """As `_asked`, for writing: an OutputError with a cure."""
    try:
        with _asked(address) as asked:
            yield asked
    except CanaryError:
        raise
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        cure = next(cure for kind, cure in _CURES if isinstance(error, kind))
        raise OutputError(f"cannot be written ({reason})", cure=cure, where=address) from error
