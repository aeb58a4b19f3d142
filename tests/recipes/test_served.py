"""The small server: what each of its modes returns, its key, and its limit of requests."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from fake_server import serve
from small_models import build

BODY = {"model": "my-model", "prompt": "abc", "max_tokens": 2, "temperature": 0}


@contextmanager
def served(**options):
    with serve.listen(serve.Served(build("table"), "my-model", **options), 0) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}/v1"
        finally:
            http.shutdown()
            thread.join()


def ask(url, body, **headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]


def refused(url, **headers):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(url, BODY, **headers)
    with caught.value as error:
        return error.code, error.headers["Retry-After"]


@pytest.mark.parametrize(("mode", "shown"), [("full", 4), ("top", 1), ("text", 0)])
def test_a_mode_is_what_a_server_of_its_kind_returns(mode, shown):
    with served(mode=mode) as url:
        told = ask(f"{url}/completions", BODY | {"echo": True, "logprobs": 3, "max_tokens": 1})
        assert len(told.get("logprobs", {}).get("tokens", [])) == shown
        assert len(told["text"]) == 1
        said = ask(f"{url}/chat/completions", BODY | {"messages": [{"content": "abc"}]})
        assert said["message"]["content"] == ask(f"{url}/completions", BODY)["text"]


def test_a_wrong_key_another_path_and_too_many_requests_are_refused():
    with served(key="k", per_second=0.5) as url:
        right = {"Authorization": "Bearer k"}
        assert refused(f"{url}/completions") == (401, None)
        assert refused(f"{url}/other", **right) == (404, None)
        assert ask(f"{url}/completions", BODY, **right)["text"]
        assert refused(f"{url}/completions", **right) == (429, "1")  # one of a second at once


def test_a_model_that_is_not_from_transformers_is_built_by_a_factory(monkeypatch):
    class Stopped(Exception):  # noqa: N818
        pass

    def loaded(model, *, factory):
        raise Stopped(model, factory)

    monkeypatch.setattr(serve, "load", loaded)
    monkeypatch.setattr("sys.argv", ["serve.py", "./own", "--factory", "mymodel.py:build"])
    with pytest.raises(Stopped) as stopped:
        serve.main()
    assert stopped.value.args == ("./own", "mymodel.py:build")


def test_tokens_and_characters_that_the_model_does_not_have_are_refused_with_400():
    with served() as url:
        for prompt in ([1, 2, 10**6], [-1], [], "ab€"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                ask(f"{url}/completions", BODY | {"prompt": prompt})
            with caught.value as error:
                assert error.code == 400
                assert json.load(error)["error"]["message"]
        assert ask(f"{url}/completions", BODY)["text"]


def test_a_folder_that_needs_a_factory_names_the_option(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("sys.argv", ["serve.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="--factory"):
        serve.main()
