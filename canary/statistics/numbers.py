"""Numbers, untrusted text and results, as a reader meets them."""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from canary.statistics.exposures import Exposure

# U+202A to U+202E and U+2066 to U+2069 reorder the text around them, and so do the marks.
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F}
_BREAKS = "\t\n\r\x0b\x0c\x85\u2028\u2029"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WORDS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_TENS = (
    *("a hundred", "a thousand", "ten thousand", "a hundred thousand"),
    *("a million", "ten million", "a hundred million", "a billion"),
)
_UNTRACKED = re.compile(r"[^\w/.: -]", re.ASCII)  # MLflow refuses these in names
_MOST_CHARACTERS = 100
_MOST_LINES = 5
_MOST_ROWS = 20


def clean(text: str) -> str:
    r"""Untrusted text without control characters and bidi overrides.

    Line breaks and tabs become spaces, and what no UTF-8 holds is escaped: a byte of a file
    name as ``\xff``. Other escaping is not done here but by the template.
    """
    return "".join(_cleaned(character) for character in text)


def _cleaned(character: str) -> str:
    code = ord(character)
    if character in _BREAKS:
        return " "
    if 0xDC80 <= code <= 0xDCFF:  # a byte that Python read and could not decode
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:  # half of a character
        return f"\\u{code:04x}"
    return "" if code in _BIDI or unicodedata.category(character) == "Cc" else character


def count(number: int) -> str:
    """An exact count with thousands separators, or its magnitude where that is too long."""
    return f"{number:,}" if number < 10**15 else f"about {_power(math.log10(number))}"


def short_count(number: int, least: int = 10**9) -> str:
    """``9,000,000``, ``3.44 trillion``, ``1.2 × 10¹⁵``: three digits from `least` on."""
    if number < least:
        return count(number)
    if number >= 10**15:
        tens = math.floor(math.log10(number))
        return f"{number / 10**tens:.3g} × {_power(tens)}"
    size, word = next((size, word) for size, word in _WORDS if number >= size)
    return f"{number / size:.3g} {word}"


def worded(number: int) -> str:
    """As `short_count`, from a million on: for labels that are beside each other."""
    return short_count(number, 10**6)


def plural(number: int, singular: str, many: str = "") -> str:
    """``1 canary``, ``16 canaries``."""
    return f"{count(number)} {singular if number == 1 else many or singular + 's'}"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 min``, ``3.5 hours``: two digits, in the unit that people would use."""
    for length, unit in ((86_400 * 2, "days"), (7_200, "hours"), (120, "min")):
        if seconds >= length:
            value = seconds / {"days": 86_400, "hours": 3_600, "min": 60}[unit]
            return f"{value:.2g} {unit}" if value < 100 else f"{value:,.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


def gigabytes(size: int) -> str:
    """``540 MB``, ``1.2 GB``."""
    return f"{size / 1e6:,.0f} MB" if size < 1e9 else f"{size / 1e9:,.1f} GB"


def copies(repetitions: int) -> str:
    """``once``, ``twice``, ``16 times``."""
    return {1: "once", 2: "twice"}.get(repetitions, f"{count(repetitions)} times")


def bits(value: float) -> str:
    """Bits with one decimal; a small negative number is 0."""
    return f"{value:z.1f}"


def bits_between(lower: float, upper: float) -> str:
    """``12.4 to 17.1``, or ``17.1`` where both ends read the same."""
    low, high = bits(lower), bits(upper)
    return low if low == high else f"{low} to {high}"


def bits_or_bound(exposure: Exposure | None) -> str:
    """An exposure with two decimals: ``≥ 12.70`` for a lower bound, ``none`` for none."""
    if exposure is None:
        return "none"
    if exposure.bits is None:
        return f"≥ {exposure.lower_bits:z.2f}"
    return f"{exposure.bits:z.2f}"


def probability(p: float | None) -> str:
    """A p-value with two digits; ``3.2 × 10⁻⁹`` where it is small, ``none`` where it is not."""
    if p is None:
        return "none"
    if p <= sys.float_info.min:
        return "< 10⁻³⁰⁷"
    if p >= 0.001:
        return f"{p:.2g}" if p < 0.995 else "1"
    mantissa, exponent = f"{p:.1e}".split("e")
    return f"{mantissa} × {_power(int(exponent))}"


def odds(p: float) -> str:
    """``fewer than one in a hundred``: the power of ten above a p-value of at most 1 %."""
    power = min(int(-math.log10(p) + 1e-9), len(_TENS) + 1)
    return f"fewer than one in {_TENS[power - 2]}"


def one_in(exposure_bits: float, *, about: bool = False) -> str:
    """``1 in 400,000``: the share of the space that is as likely as a canary, 2**-exposure.

    The share is never made smaller by rounding: two digits are kept of its inverse, the
    rest is cut off.
    """
    tens = exposure_bits * math.log10(2)
    if tens >= 15:
        number = _power(math.floor(tens))
    else:
        value = 2.0**exposure_bits
        unit = 10.0 ** (math.floor(math.log10(value)) - 1)
        # A power of ten that rounding left just below itself shall not be rounded down.
        value = math.floor(value / unit + 1e-6) * unit
        number = f"{value:,.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")
        for size, word in reversed(_WORDS):
            if value >= size:
                number = f"{value / size:.4g} {word}"
    return f"1 in {'about ' if about else ''}{number}"


def _power(tens: float) -> str:
    return f"10{str(round(tens)).translate(_SUPERSCRIPTS)}"


class Shown:
    """What every result has: a short ``repr``, a text, a table, and a view for notebooks.

    A result gives `summary` and `_table`; neither holds a secret.
    """

    _figures = "canary.reports.notebook"  # by name: it is above, and imported for a view only
    _pages = "canary.reports.pages"

    if not TYPE_CHECKING:  # else any name would do

        def __getattr__(self, name: str) -> Any:
            """An error that says what there is; called only for names that are not."""
            names = [n for n in getattr(type(self), "__dataclass_fields__", ()) if n[0] != "_"]
            among = f"; its fields are {', '.join(names)}" if names and name[:1] != "_" else ""
            among = "; its table is to_frame()" if name.startswith("to_") else among
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{among}")

    def summary(self) -> str:
        """A few lines for a terminal."""
        raise NotImplementedError

    def _table(self) -> Sequence[Mapping[str, Any]] | Mapping[str, Any]:
        """The numbers, as rows or as columns."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """The numbers as a `pandas.DataFrame`; no secret is in it."""
        import pandas as pd

        return pd.DataFrame(self._table())

    def metrics(self) -> dict[str, float]:
        """The main numbers as one flat dict of finite floats, for an experiment tracker.

        Names begin with ``canary/`` and have only characters that MLflow allows. Beside a median
        exposure that is not exact, ``_lower`` and ``_upper`` are the medians of the ends of its
        canaries' intervals: of other draws, not of other canaries as in ``groups()``.
        ``_censored`` is 1 where the draws say no more than ``_lower``: then the median counts
        canaries that no draw was as likely as at ``log2(draws)``, so that it does not fall when
        more is memorized. It is no bound then: ``_lower`` is, and `summary` says it ("at least").
        Tables of samples and sets of canaries have none.

        Examples
        --------
        >>> wandb.log(result.metrics())  # doctest: +SKIP
        >>> mlflow.log_metrics(result.metrics())  # doctest: +SKIP
        """
        return {
            f"canary/{_UNTRACKED.sub('_', name)}": float(value)
            for name, value in self._metrics()
            if isinstance(value, Real) and math.isfinite(value)
        }

    def report(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the result as a page; `canary.report`, which lists the options."""
        written: Path = import_module(self._pages).report(self, path, **options)
        return written

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the result on matplotlib axes or into a file; `canary.plot` lists the options."""
        return import_module(self._pages).plot(self, ax, **options)

    def _metrics(self) -> Iterator[tuple[str, Any]]:
        """Names and values, of which `metrics` keeps the numbers."""
        if self._table() == [vars(self)]:
            kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
            yield from ((f"{kind}/{name}", value) for name, value in vars(self).items())

    def __repr__(self) -> str:
        line = clean(self.summary().strip().partition("\n")[0])
        short = line if len(line) <= _MOST_CHARACTERS else f"{line[: _MOST_CHARACTERS - 1]}…"
        return f"<{type(self).__name__}: {short}>"

    def __str__(self) -> str:
        lines = [clean(line) for line in self.summary().splitlines()]
        if len(lines) > _MOST_LINES:
            left = lines[_MOST_LINES - 1 :]
            notes = sum(line.lstrip().startswith("note:") for line in left)
            among = f", {plural(notes, 'note')} among them" if notes else ""
            lines[_MOST_LINES - 1 :] = [f"… and {len(left)} more lines{among}; see summary()"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = "<br>".join(escape(clean(line)) for line in self.summary().splitlines())
        figure = import_module(self._figures).inline_figure(self)
        frame = self.to_frame().to_html(max_rows=_MOST_ROWS, border=0)
        return f"<p>{lines}</p>\n{figure}{frame}"


def picked(thing: object, *names: str) -> dict[str, Any]:
    """Some fields of a thing, by name."""
    return {name: getattr(thing, name) for name in names}


def percent_of(share: float, digits: int | None = 1) -> str:
    """``61.0 %``, ``100 %`` for all; as many digits as it has where `digits` is None, up to 3."""
    if digits is None or share == 1.0:
        return f"{100 * share:.3g} %"
    shown = f"{100 * share:.{digits}f} %"
    if share < 1.0 and shown.startswith("100"):  # it is not all
        return f"over {100 - 10**-digits:.{digits}f} %"
    return shown
