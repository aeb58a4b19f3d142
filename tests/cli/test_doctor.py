"""`canary doctor`: the table, the exit code and the document."""

from __future__ import annotations

import pytest
import torch
from command_line import save_model, small_model


@pytest.mark.parametrize("as_json", [True, False])
def test_a_model_that_cannot_be_loaded_is_exit_code_2(command, tmp_path, as_json) -> None:
    model = small_model()
    with torch.no_grad():
        model.transformer.h[0].mlp.c_fc.weight[0, 0] = float("nan")
    save_model(model, tmp_path / "model")
    found = command("doctor", str(tmp_path / "model"), *(["--json"] if as_json else []))
    assert found.code == 2
    assert "not finite" in found.err
    assert "The model could not be loaded; nothing was checked" in found.err
    assert "refused" not in found.err
    if as_json:
        assert found.document["sound"] is False
