"""Every script of the gallery runs, says what its page says, and is on the page."""

from __future__ import annotations

import re

import pytest
from pages import ROOT
from recipe_scripts import RECIPES, run_script

SAYS = {
    "01_first_audit": [r"12 canaries \(84 copies\) found", r"controls: p = ", r"^memorized$"],
    "02_format_and_plan": [r"•••-••••: 10,000,000 fills", r"^10000$", r"up to 3\.0 bits passes"],
    "03_monitor": [r"exposure measured \d+ times, last at step 1\d\d", r"16 copies: median"],
    "04_extraction": [r"^proven", r"^True$", r"queries; guessing takes 500,000$"],
    "05_compare": [r"(test loss .*p = .*\n){2}"],
    "06_own_model": [r"^True$", r"16 copies: 6 canaries, median"],
    "07_classifier": [r"^modified-entropy: AUC 0\.[89]", r"each is the best of 4"],
    "08_lira": [r"400 samples of 16 models", r"^P: AUC", r"^lira-online-fixed: AUC 0\.9"],
    "09_texts": [r"each is the best of 3", r"words alone: AUC 0\.[3-7]"],
    "10_forgetting": [r"^retrained: (no trace found|forgotten)$", r"^unchanged: not forgotten$"],
}
REPORTS = {
    "01_first_audit": "gallery/report.html",
    "03_monitor": "gallery/training.html",
    "05_compare": "gallery/comparison.html",
    "07_classifier": "gallery/membership.html",
    "09_texts": "gallery/texts.html",
}


def test_the_page_shows_every_script():
    scripts = {path.stem for path in (RECIPES / "gallery").glob("[0-9]*.py")}
    page = (ROOT / "docs" / "guides" / "gallery.md").read_text(encoding="utf-8")
    assert scripts == set(SAYS) == set(re.findall(r"`recipes/gallery/(\w+)\.py`", page))


@pytest.mark.parametrize("script", SAYS)
def test_a_script_says_what_its_page_says(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = run_script(RECIPES / "gallery" / f"{script}.py")
    for wanted in SAYS[script]:
        assert re.search(wanted, said, re.MULTILINE), said
    if script in REPORTS:
        assert "<svg" in (tmp_path / REPORTS[script]).read_text(encoding="utf-8")
    text = (RECIPES / "gallery" / f"{script}.py").read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n# # ")
