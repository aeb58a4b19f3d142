"""What a browser would see of a page, and what every page of ours must keep."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from html.parser import HTMLParser

from canary.reports.builders import report_of
from canary.reports.document import words_of
from canary.reports.html_page import page_of
from canary.reports.pages import shown

VOID = {"meta", "br", "link", "img", "input", "hr"}


def render(result, **options):
    """The HTML of `canary.report`, as text."""
    return page_of(report_of(shown(result, **options)))


def answer_of(result):
    """The answer of a report, as text."""
    return " ".join(map(words_of, report_of(result).sentences))


class Page(HTMLParser):
    """Elements in order, text by element, open tags."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.html = html
        self.elements, self.stack, self.texts, self.unbalanced = [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data):
        self.texts.append((self.stack[-1] if self.stack else "", data))

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]

    def text(self, *skip):
        return " ".join(" ".join(data for tag, data in self.texts if tag not in skip).split())


def check_self_contained(page):
    """No script, and no address of anything outside."""
    assert page.unbalanced == []
    assert page.stack == []
    forbidden = {"script", "link", "img", "iframe", "object", "embed", "base", "form", "a", "image"}
    assert not forbidden & {tag for tag, _ in page.elements}
    for tag, attributes in page.elements:
        for attribute, value in attributes.items():
            assert not attribute.startswith("on"), (tag, attribute)
            assert attribute not in {"src", "srcset", "action", "data", "poster", "background"}
            if attribute.endswith("href"):
                assert value.startswith("#"), (tag, value)
            for target in re.findall(r"url\(([^)]*)\)", value or ""):
                assert target.startswith("#"), (tag, target)
    styles = " ".join(data for tag, data in page.texts if tag == "style")
    assert "@import" not in styles
    assert "//" not in styles
    assert re.findall(r"url\(([^)#][^)]*)\)", styles) == []
    policy = page.all("meta")[1]
    assert policy["http-equiv"] == "Content-Security-Policy"
    assert policy["content"].startswith("default-src 'none'")


def check_ids(page):
    """Each id is there once, and what refers to one finds it."""
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert [one for one, times in ids.items() if times > 1] == []
    used = set(re.findall(r'(?:href="#|url\(#|aria-labelledby=")([^")]+)', page.html))
    assert used <= ids.keys()


def check_readable_aloud(page):
    """Language, order of headings, names of images, and numbers behind every figure."""
    assert page.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert all(attributes["scope"] in {"col", "row"} for attributes in page.all("th"))
    images = [a for _, a in page.elements if a.get("role") == "img"]
    assert len(images) == len(page.all("svg"))
    assert all(len(a["aria-label"]) > 20 for a in images)
    for figure in re.findall(r"<figure>.*?</figure>", page.html, re.DOTALL):
        caption = figure.partition("<figcaption>")[2]
        assert "<table>" in caption
        assert "<caption>" in caption
    assert all(
        table.count("<caption>") == 1
        for table in re.findall(r"<table.*?</table>", page.html, re.DOTALL)
    )


def check_variables(page):
    """Figures have no colour of their own, and every variable has a value in both schemes."""
    for svg in re.findall(r"<svg.*?</svg>", page.html, re.DOTALL):
        styles = " ".join(re.findall(r'style="([^"]*)"', svg))
        assert re.findall(r"#[0-9a-fA-F]{3,8}|\b(?:black|white)\b", styles) == []
        assert not re.search(r'\b(?:fill|stroke)="#', svg)
    light, dark = re.findall(r":root \{([^}]*)\}", page.html)[:2]
    used = set(re.findall(r"var\(--([\w-]+)\)", page.html)) - {"tone"}
    for scheme in (light, dark):
        assert used <= set(re.findall(r"--([\w-]+):", scheme))


def check_page(page):
    """What every page of ours keeps."""
    for check in (check_self_contained, check_ids, check_readable_aloud, check_variables):
        check(page)
