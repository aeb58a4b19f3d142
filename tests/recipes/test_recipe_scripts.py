"""What the tests of recipes have in common."""

from __future__ import annotations

import pytest
from recipe_scripts import has_table

TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |"


@pytest.mark.parametrize(
    ("page", "has"),
    [
        (f"before\n\n{TABLE}\n\nafter\n", True),
        (TABLE, True),
        (f"{TABLE}\n", True),
        (f"{TABLE}\n| 3 | 4 |\n", False),
        (f"{TABLE} 3 |\n", False),
        (f"> {TABLE}\n", False),
        (f"{TABLE}\n| 3 | 4 |\n\n{TABLE}\n", True),
        ("| 1 | 2 |\n", False),
    ],
)
def test_a_row_that_nobody_made_is_seen(page, has):
    assert has_table(page, f"{TABLE}\n\n") is has
