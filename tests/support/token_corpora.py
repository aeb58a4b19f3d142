"""Corpora of token ids as Megatron-LM has them, written and read from the format's definition."""

from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np

CODES = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "u2": 8}


def write_megatron(path, documents, *, dtype="u2", modes=None):
    """A ``.bin`` and its ``.idx`` of documents, each a list of sequences of ids."""
    sequences = [ids for document in documents for ids in document]
    path.write_bytes(b"".join(np.array(ids, f"<{dtype}").tobytes() for ids in sequences))
    lengths = [len(ids) for ids in sequences]
    width = np.dtype(dtype).itemsize
    index = b"MMIDIDX\0\0" + struct.pack("<QB", 1, CODES[dtype])
    index += struct.pack("<QQ", len(sequences), len(documents) + 1)
    index += struct.pack(f"<{len(lengths)}i", *lengths)
    at = 0
    for length in lengths:
        index += struct.pack("<q", at)
        at += length * width
    there = [0]
    for document in documents:
        there.append(there[-1] + len(document))
    index += struct.pack(f"<{len(there)}q", *there)
    if modes is not None:
        index += struct.pack(f"<{len(modes)}b", *modes)
    path.with_suffix(".idx").write_bytes(index)
    return path


def read_megatron(path, *, multimodal=False):
    """The documents, and the modes of their sequences: one number at a time, nothing assumed."""
    index, tokens = path.with_suffix(".idx").read_bytes(), path.read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    dtype = {code: name for name, code in CODES.items()}[code]
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    offsets = struct.unpack_from(f"<{sequences}q", index, 34 + 4 * sequences)
    there = struct.unpack_from(f"<{documents}q", index, 34 + 12 * sequences)
    end = 34 + 12 * sequences + 8 * documents
    modes = struct.unpack_from(f"<{sequences}b", index, end) if multimodal else None
    assert len(index) == end + sequences * multimodal
    assert sum(lengths) * np.dtype(dtype).itemsize == len(tokens)
    assert there[0] == 0
    assert there[-1] == sequences
    found = [
        np.frombuffer(tokens, f"<{dtype}", length, offset).tolist()
        for length, offset in zip(lengths, offsets, strict=True)
    ]
    return [found[a:b] for a, b in pairwise(there)], modes
