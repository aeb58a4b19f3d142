"""A local HTTP server that answers for a model, as completion servers do and as they fail to.

    with FakeServer(model) as server:
        load(server.url, tokenizer=...)

A fault is a function of the server, the number of the request to ``/completions`` (from 1)
and the right answer; it gives another answer: a document, a `Status`, bytes, None after
which the connection is closed without a word, or a function that writes to it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from canary.models.language_model import Children, Context
from canary.models.noise import nodes_of


@dataclass(frozen=True)
class Status:
    """A failure: its code, what is said of it, and headers."""

    code: int
    body: object = "no"
    headers: dict = field(default_factory=dict)


class FakeServer:
    def __init__(self, model, *, name="tiny", numbered=True, ids=True, key=None, fault=None):
        self.model, self.name = model, name
        self.numbered, self.ids, self.key = numbered, ids, key
        self.fault = fault or (lambda server, number, answer: answer)
        self.bodies, self.most_at_once, self.over = [], 0, threading.Event()
        self._at_once, self._lock = 0, threading.Lock()

    def __enter__(self):
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
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

    def complete(self, body):
        with self._lock:
            self.bodies.append(body)
            number = len(self.bodies)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            with self._lock:
                answer = self._right(body)
            return self.fault(self, number, answer)
        finally:
            with self._lock:
                self._at_once -= 1

    def _right(self, body):
        if body.get("messages"):
            told = self._right({**body, "prompt": body["messages"][-1]["content"], "messages": ()})
            (choice,) = told["choices"]
            return {**told, "choices": [{**choice, "message": {"content": choice["text"]}}]}
        prompt = self.tokens(body)
        if not isinstance(body["prompt"], str) and not self.ids:
            return Status(500, {"error": {"message": "Input should be a valid string"}})
        if body["model"] != self.name:
            return Status(404, {"error": {"message": f"no model {body['model']}"}})
        if "logprobs" not in body:
            return self._sampled(prompt, body)
        own, following = self._read(prompt)
        likeliest = np.argsort(-following, kind="stable")[: max(body["logprobs"], 1)]
        show = self._numbered(body)
        top = {show(token): float(following[token]) for token in likeliest}
        tokens, log_probs, tops = [], [], []
        if body.get("echo"):
            tokens, log_probs = [show(t) for t in prompt], [None, *own]
            tops = [None, *({t: v} for t, v in zip(tokens[1:], own, strict=True))]
        generated = int(likeliest[0])
        return {
            "model": self.name,
            "choices": [
                {
                    "text": self.model.tokenizer.decode([generated]),
                    "logprobs": {
                        "tokens": [*tokens, show(generated)],
                        "token_logprobs": [*log_probs, float(following[generated])],
                        "top_logprobs": [*tops, top],
                    },
                }
            ],
            "usage": {"prompt_tokens": len(prompt)},
        }

    def _sampled(self, prompt, body):
        """Text alone, drawn token by token."""
        rng, drawn = np.random.default_rng(body["seed"]), []
        for _ in range(body["max_tokens"]):
            shares = self._next([*prompt, *drawn])
            if not body["temperature"]:
                drawn.append(int(shares.argmax()))
                continue
            shares = np.exp(shares / body["temperature"])
            drawn.append(int(rng.choice(len(shares), p=shares / shares.sum())))
        text = self.model.tokenizer.decode(drawn)
        return {"model": self.name, "choices": [{"text": text, "finish_reason": "length"}]}

    def tokens(self, body):
        """The tokens of a request's prompt."""
        if not isinstance(body["prompt"], str):
            return body["prompt"]
        (encoding,) = self.model.tokenizer.encode([body["prompt"]])
        return list(encoding.ids)

    def _numbered(self, body):
        if self.numbered and body.get("return_tokens_as_token_ids"):
            return lambda token: f"token_id:{token}"
        return lambda token: self.model.tokenizer.decode([int(token)])

    def _next(self, prompt):
        return self._read(prompt)[1]

    def _read(self, prompt):
        """Log-probabilities of the prompt's tokens after its first, and of all that may follow."""
        everything = Children(np.arange(self.model.facts.vocabulary, dtype=np.int32))
        with self.model.open(Context(np.array(prompt, np.int32)), memory_bytes=2**20) as walker:
            found = walker.expand(nodes_of([[]]), everything, keep=False)
            return walker.context_log_probs.tolist(), found.log_probs[0].astype(np.float64)


def _handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            known = self.path == "/v1/models"
            self._give(server.models() if known else Status(404))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if server.key is not None and self.headers["Authorization"] != f"Bearer {server.key}":
                said = f"wrong key: {self.headers['Authorization']}"
                return self._give(Status(401, {"error": {"message": said}}))
            return self._give(server.complete(body))

        def _give(self, answer):
            if answer is None:
                self.close_connection = True
                return
            if callable(answer):
                self.close_connection = True
                with contextlib.suppress(OSError):
                    answer(self.wfile.write)
                return
            code, headers = 200, {}
            if isinstance(answer, Status):
                code, headers, answer = answer.code, answer.headers, answer.body
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(code)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # whoever asked is gone
                self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler
