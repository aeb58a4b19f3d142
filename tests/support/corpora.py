"""Small corpora in files of every format, compressed as their names say."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from pathlib import Path

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
UNPACK = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}


def packed(content, ending):
    """Bytes, compressed as the ending of a name says."""
    if ending == ".zst":
        import pyarrow as pa

        return pa.compress(content, "zstd", asbytes=True)
    return PACK.get(ending, bytes)(content)


def unpacked(path):
    """The bytes of a file, decompressed as its name says."""
    if path.suffix == ".zst":
        import pyarrow as pa

        with pa.input_stream(str(path), compression="zstd") as stream:
            return stream.read()
    return UNPACK.get(path.suffix, bytes)(path.read_bytes())


def parquet(rows, **options):
    """A Parquet file of an Arrow table, or of rows as mappings."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows) if isinstance(rows, list) else rows, out, **options)
    return out.getvalue()


def content_of(name, rows):
    """The bytes of a corpus of rows (mappings, or texts) in the format that a name says."""
    rows = [{"text": row} if isinstance(row, str) else row for row in rows]
    match Path(name).suffix:
        case ".parquet":
            return parquet(rows)
        case ".txt":
            return "".join(row["text"] + "\n" for row in rows).encode()
        case ".csv" | ".tsv" as ending:
            out = io.StringIO()
            delimiter = "\t" if ending == ".tsv" else ","
            writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
            writer.writerows([[*rows[0]], *(row.values() for row in rows)])
            return out.getvalue().encode()
        case _:
            return "".join(json.dumps(row) + "\n" for row in rows).encode()


def write_corpus(path, rows):
    """Write rows (mappings, or texts) as the name of the file says, and return its path."""
    ending = path.suffix if path.suffix in {*PACK, ".zst"} else ""
    path.write_bytes(packed(content_of(path.name.removesuffix(ending), rows), ending))
    return path
