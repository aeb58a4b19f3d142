"""What a command is about to write: nothing that it reads, cannot write or was not asked for."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from canary.cli.console import Bars, say, show, show_report, show_summary
from canary.corpus.lines import place
from canary.errors import InputError, OutputError
from canary.records.about import Named
from canary.records.addresses import beside, place_of
from canary.records.files import (
    PAGES,
    PARQUET,
    atomic_writer,
    check_writable,
    folder_made,
    kind_there,
)
from canary.records.versioned_json import dump_document
from canary.statistics.numbers import Shown

Output = tuple[Path, Collection[str]]
"""A file that will be written, and the kinds of which it may replace one."""

Tested = TypeVar("Tested", bound=Named)

_MODELS = ("masked", "model", "reference", "tokenizer")

_NAMES = ("text or whole number", "name a field that has a name of each text, such as its title")

_OF_A_MODEL = (
    *("config.json", "generation_config.json", "*.safetensors*", "tokenizer*"),
    *("special_tokens_map.json", "vocab.*", "merges.txt"),
)


@dataclass(frozen=True)
class Result:
    """How a command ends: its document, which ``--json`` prints, and its exit code."""

    kind: str
    body: Mapping[str, Any]
    schema: int = 1
    code: int = 0


@dataclass(frozen=True)
class Names:
    """What a report calls what was tested, and who tested it."""

    model_name: str | None = None
    corpus_name: str | None = None
    auditor: str | None = None

    def on(self, result: Tested) -> Tested:
        """A result with these names."""
        return result.named(
            model_name=self.model_name, corpus_name=self.corpus_name, auditor=self.auditor
        )


@dataclass(frozen=True)
class ReportFolder:
    """Where a command puts its document and the page that shows it; `parts` is for long runs."""

    kind: str
    numbers: Path
    page: Path
    parts: Path
    pieces: int

    def running(self) -> AbstractContextManager[Bars]:
        """The bars of the work, to put around it."""
        return Bars()

    def finish(
        self,
        result: Any,
        schema: int,
        *,
        body: Mapping[str, Any] | None = None,
        code: int = 0,
        short: bool = False,
    ) -> Result:
        """Write the document and the page, say what there is to say, and end the command.

        `body` of the document is the result's own unless it is given. If `short`, notes and
        actions are in the page alone.
        """
        self.write(result, schema, body=body)
        (show_summary if short else show_report)(result)
        self.say_where()
        return Result(self.kind, result.to_dict() if body is None else body, schema, code)

    def say_where(self) -> None:
        """The line that ends a command which wrote them."""
        show(f"The report is {self.page}; its numbers are in {self.numbers}")

    def write(self, result: Any, schema: int, *, body: Mapping[str, Any] | None = None) -> None:
        """Write the document, and the page that shows it."""
        from canary.records.shards import discard_run, publish
        from canary.reports.pages import report

        body = result.to_dict() if body is None else body
        save = partial(dump_document, kind=self.kind, schema=schema, body=body, private=True)
        draw: Callable[[Path], object] = partial(report, result, force=True)
        if self.parts.name:
            publish(self.parts, self.numbers, save, replaces=(self.kind,))
            publish(self.parts, self.page, draw, replaces=PAGES)
            discard_run(self.parts)
        else:
            save(self.numbers)
            draw(self.page)


@contextmanager
def report_folder(
    out: Path,
    kind: str,
    name: str,
    *,
    inputs: Sequence[Path],
    force: bool,
    in_parts: bool = False,
) -> Iterator[ReportFolder]:
    """The folder `out` for a document called `name` and its page, both checked.

    A folder that was made for it goes if the block raises. `in_parts` is for runs that go on
    where an earlier one was stopped.
    """
    from canary.records.shards import finished_pieces

    with folder_made(out) as folder:
        parts = folder / "parts" if in_parts else Path()
        pieces = finished_pieces(parts) if in_parts else 0
        numbers, page = folder / name, folder / "report.html"
        check_outputs([(numbers, (kind,)), (page, PAGES)], inputs=inputs, force=force or pieces > 0)
        with resumable(parts):
            yield ReportFolder(kind, numbers, page, parts, pieces)


def asked_folder(
    out: Path | None, kind: str, name: str, *, inputs: Sequence[Path], force: bool
) -> AbstractContextManager[ReportFolder | None]:
    """`report_folder`, or nothing where no folder was asked for."""
    if out is None and force:
        raise InputError("--force without --out replaces nothing", cure="give --out, or omit it")
    if out is None:
        return nullcontext()
    return report_folder(out, kind, name, inputs=inputs, force=force)


@contextmanager
def resumable(parts: Path) -> Iterator[None]:
    """Around a long run: when it is stopped, by a signal as well, a line says how to resume it."""
    try:
        yield
    except BaseException as error:
        stopped = not isinstance(error, Exception | SystemExit | GeneratorExit)
        if (
            stopped and parts.name and parts.exists()
        ):  # a run that had finished nothing leaves nothing
            say(f"run the same command again to resume from {parts}")
        raise


def check_paths(options: Mapping[str, Any]) -> None:
    """Refuse paths that cannot be, and what is neither a file nor a folder.

    A pipe would be waited for, and a device may never end. Of the text that a command was given
    only names of models are paths.
    """
    for name, given in options.items():
        for path in given if isinstance(given, list | tuple) else [given]:
            if not (isinstance(path, Path) or (name in _MODELS and isinstance(path, str))):
                continue
            try:
                mode = os.stat(path).st_mode  # noqa: PTH116 - of an address of a server as well
            except (OSError, ValueError) as error:
                number = getattr(error, "errno", errno.ELOOP)
                if number not in (errno.ENAMETOOLONG, errno.ELOOP):
                    continue  # nothing is there, and whoever reads it says so
                reason = getattr(error, "strerror", None) or error
                raise InputError(
                    f"is no path ({reason})", cure="check it", where=str(path)
                ) from error
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise InputError(
                    "is a pipe, a device or a socket",
                    cure="name a file on disk (write what comes out of a pipe to one)",
                    where=str(path),
                )


def check_name(output: Path) -> None:
    """Refuse a file to write that is named like a folder: ``.``, ``/``, or nothing."""
    if not output.name:
        raise OutputError(
            "is a folder, a file was expected", cure="name a file in it", where=str(output)
        )


def check_outputs(
    outputs: Sequence[Output], *, inputs: Sequence[Path], force: bool | None = False
) -> None:
    """Check all outputs of a command before the first is written.

    `inputs` are what the command reads; `force` says whether an earlier result is replaced. None:
    it is if it is of the kind, for verdicts, which cost nothing to make again.

    Raises
    ------
    OutputError
        If one is an input (by another name, a link or a hard link as well) or another
        output, cannot be written, or would replace something.
    """
    for number, (output, _) in enumerate(outputs):
        problem = None
        if any(_same(output, given) for given in inputs):
            problem = "is read by this command, and what is read is never modified"
        elif any(_same(output, other) for other, _ in outputs[:number]):
            problem = "is where another result of this command goes"
        if problem:
            raise OutputError(problem, cure="name another file to write", where=str(output))
    for output, replaces in outputs:
        check_writable(output, replaces=replaces)
        if force or not output.is_file() or not output.stat().st_size:
            continue
        problem, cure = "exists already", "name another place, or replace it with --force"
        if force is None:
            if kind_there(output) in replaces:
                continue
            problem = f"holds something else than {' or '.join(replaces)}"
            cure = "name another file, or remove this one yourself if you need it no more"
        raise OutputError(problem, cure=cure, where=str(output))


def many_or_one(
    corpora: Sequence[Path], out: Path, replaces: Collection[str], *, force: bool
) -> tuple[Any, list[Output]]:
    """What is read, as Python takes it, and the files to check; of many none, but their folder.

    An OutputError if the folder is there, and is not that of a run which stopped.
    """
    from canary.corpus.file_formats import files_of
    from canary.corpus.many_files import is_sharded

    source = corpora[0] if len(corpora) == 1 else [*corpora]
    if not is_sharded(source):
        return source, [(file, replaces) for file in files_of(out)]
    stopped = beside(out, ".parts").is_dir()
    if not (force or stopped) and out.is_dir() and any(out.rglob("*")):
        raise OutputError(
            "exists already",
            cure="name another folder, or replace the files in it with --force",
            where=str(out),
        )
    return source, []


def named_files(corpora: Sequence[Path]) -> list[Path]:
    """Corpora with what a list of files (``@FILE``) names in its place."""
    from canary.corpus.many_files import listed_in

    return [place for corpus in corpora for place in listed_in(corpus)]


def listed(corpora: Sequence[Path]) -> str:
    """Corpora as messages name them."""
    return ", ".join(str(place_of(corpus)) for corpus in corpora[:3]) + ", …" * (len(corpora) > 3)


def model_files(*models: str | None) -> list[Path]:
    """The files by which models or tokenizers are read, as far as they are here."""
    files = []
    for model in (Path(model) for model in models if model is not None):
        whole = not model.is_dir()
        files += [model] if whole else [f for name in _OF_A_MODEL for f in model.glob(name)]
    return files


def audit_in(given: Path) -> Path:
    """The result that a path names: a file, or the folder that a command wrote (``--out``)."""
    names = ("audit.json", "exposure.json", "extraction.json", "samples.json")
    return next((given / name for name in names if (given / name).is_file()), given)


def texts_in(files: Mapping[str, Path | None], column: str) -> dict[str, list[str]]:
    """The texts of JSONL files by name; those that were not given are left out."""
    return {name: [text for text, _ in rows] for name, _, rows in _rows_in(files, column)}


def called_texts_in(
    files: Mapping[str, Path | None], column: str, field: str | None
) -> dict[str, list[str] | dict[str, str]]:
    """As `texts_in`, with what each text is called if that is not its number.

    That is what it has in a field, or its line if the file has empty ones.
    """
    found: dict[str, list[str] | dict[str, str]] = {}
    for name, source, rows in _rows_in(files, column):
        lines, ids = [f"line {line}" for _, line in rows], None
        if field is not None:
            given = [str(one) for one in field_in(source, field, _is_name, *_NAMES)]
            times = Counter(given)
            ids = [
                one if times[one] == 1 else f"{line}: {one}"
                for one, line in zip(given, lines, strict=True)
            ]
        elif rows[-1][1] > len(rows):
            ids = lines
        texts = [text for text, _ in rows]
        found[name] = texts if ids is None else dict(zip(ids, texts, strict=True))
    return found


def _rows_in(
    files: Mapping[str, Path | None], column: str
) -> Iterator[tuple[str, Path, list[tuple[str, int]]]]:
    from canary.signals.text_files import read_rows

    for name, source in files.items():
        if source is not None:
            yield name, source, read_rows(source, column)[0]


def field_in(
    source: Path, field: str, right: Callable[[Any], bool], what: str, cure: str
) -> list[Any]:
    """A field of all records of a JSONL file; an InputError where one is not `right`."""
    found = []
    with source.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                value = json.loads(raw).get(field)
                if not right(value):
                    problem = f"has no {what} in {field!r}"
                    raise InputError(problem, cure=cure, where=place(source, number))
                found.append(value)
    return found


def _is_name(value: Any) -> bool:
    return type(value) is int or (isinstance(value, str) and bool(value.strip()))


def factory_file(factory: str | None) -> list[Path]:
    """The file of ``path/to/file.py:function``."""
    place = (factory or "").rpartition(":")[0]
    return [Path(place)] if place.endswith(".py") else []


def _same(one: Path, other: Path) -> bool:
    try:
        if one.exists() and other.exists():
            return one.samefile(other)
        return os.path.realpath(one) == os.path.realpath(other)
    except (OSError, ValueError):  # a name too long, a NUL: nothing is there
        return False


def check_table(out: Path, *, inputs: Sequence[Path], force: bool) -> None:
    """Refuse a table that cannot be written to this file."""
    check_outputs([(out, (PARQUET,))], inputs=inputs, force=force)
    ending = out.suffix.lower()
    if ending not in (".parquet", ".pq", ".csv"):
        raise InputError(
            f"a table cannot be written as {ending or 'a file without an ending'}",
            cure="give a name that ends with .parquet, .pq or .csv",
            where=str(out),
        )


def write_table(out: Path, result: Shown) -> None:
    """The numbers of a result as a CSV or Parquet file."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    csv = out.suffix.lower() == ".csv"
    write = pyarrow.csv.write_csv if csv else pyarrow.parquet.write_table
    with atomic_writer(out, private=True, replaces=(PARQUET,)) as file:
        write(pa.table(dict(result.to_frame().items())), file)
