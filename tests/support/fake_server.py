"""A local HTTP server that answers for a model, as completion servers do and as they fail to.

    with FakeServer(model) as server:
        load(server.url, tokenizer=...)

A fault is a function of the server, the number of the request to ``/completions`` (from 1)
and the right answer; it gives another answer: a document, a `Status`, bytes, None after
which the connection is closed without a word, or a function that writes to it.
"""

from __future__ import annotations

import contextlib
import threading

from recipe_scripts import RECIPES, modules

with modules(RECIPES / "served") as recipe:
    serve = recipe["serve"]
Status = serve.Status


class FakeServer(serve.Served):
    def __init__(self, model, *, name="tiny", numbered=True, ids=True, key=None, fault=None):
        super().__init__(model, name, key=key)
        self.numbered, self.ids = numbered, ids
        self.fault = fault or (lambda server, number, answer: answer)
        self.bodies, self.most_at_once, self.over = [], 0, threading.Event()
        self._at_once = 0

    def __enter__(self):
        self._http = serve.listen(self, 0, _Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def count(self):
        return len(self.bodies)

    def models(self):
        return {"data": [{"id": self.name, "max_model_len": 64}]}

    def answer(self, path, authorization, body):
        if self.key is not None and authorization != f"Bearer {self.key}":
            return Status(401, {"error": {"message": f"wrong key: {authorization}"}})
        return super().answer(path, authorization, body)

    def complete(self, body):
        with self.lock:
            self.bodies.append(body)
            number = len(self.bodies)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self.fault(self, number, super().complete(body))
        finally:
            with self.lock:
                self._at_once -= 1

    def right(self, body):
        if not self.ids and not isinstance(body.get("prompt", ""), str):
            return Status(500, {"error": {"message": "Input should be a valid string"}})
        return super().right(body)

    def shown(self, body):
        return super().shown(body if self.numbered else {})


class _Handler(serve.Handler):
    def give(self, answer):
        if answer is None or callable(answer):
            self.close_connection = True
            if answer is not None:
                with contextlib.suppress(OSError):
                    answer(self.wfile.write)
            return
        try:
            super().give(answer)
        except OSError:  # whoever asked is gone
            self.close_connection = True
