import numpy as np
import pytest

from canary.errors import InputError
from canary.scoring.run_options import RunOptions, ScoreOptions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start_token": 5}, "start_token must be text"),
        ({"start_token": "\ud800"}, "start_token holds half a character"),
        ({"context": None}, "context must be text, got None"),
        ({"batch_size": 0}, "batch_size .* at least 1, got 0; leave it out"),
    ],
)
@pytest.mark.parametrize("options", [ScoreOptions, RunOptions])
def test_how_a_model_is_run(options, change, message):
    with pytest.raises(InputError, match=message):
        options(**change)
    assert type(options(start_token="a", batch_size=np.int64(4)).batch_size) is int


@pytest.mark.parametrize("name", ["start_tokn", "seed", "stage"])
def test_an_option_that_does_not_exist_is_named(name):
    with pytest.raises(TypeError, match=name):
        ScoreOptions(**{name: 1})
