"""The files of a verdict where there is none: they say why, and not what an earlier check said."""

from __future__ import annotations

import os
from xml.etree import ElementTree as ET

from canary.errors import CanaryError
from canary.records.files import JUNIT, MARKDOWN, PAGES, atomic_write
from canary.reports.document import Report
from canary.reports.html_page import page_of
from canary.reports.markdown import markdown_of
from canary.reports.verdicts import xml_of, xml_text

_LABEL = "Could not be checked"


def _reason(error: Exception) -> str:
    known = isinstance(error, CanaryError)
    return str(error) if known else f"canary stopped with an unforeseen {type(error).__name__}"


def _report(error: Exception) -> Report:
    return Report(
        title="canary: no verdict",
        label=f"{_LABEL}: {_reason(error)}",
        sentences=["There is no verdict on this model; the last command did not reach one."],
        tone="suspect",
    )


def write_unchecked_page(error: Exception, path: str | os.PathLike[str]) -> None:
    """Why nothing was checked, as an HTML page, atomically."""
    atomic_write(path, page_of(_report(error)), private=True, replaces=PAGES)


def write_unchecked_markdown(error: Exception, path: str | os.PathLike[str]) -> None:
    """Why nothing was checked, as Markdown, atomically."""
    atomic_write(path, markdown_of(_report(error)), private=True, replaces=(MARKDOWN,))


def write_unchecked_junit(error: Exception, path: str | os.PathLike[str]) -> None:
    """Why nothing was checked, as a JUnit test case with an error, atomically."""
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0", "time": "0"}
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", {"name": "canary", **counts})
    case = ET.SubElement(suite, "testcase", classname="canary.check", name="check", time="0")
    message = xml_text(f"{_LABEL}: {_reason(error)}")
    told = ET.SubElement(case, "error", type=type(error).__name__, message=message)
    told.text = message
    atomic_write(path, xml_of(suites), private=True, replaces=(JUNIT,))
