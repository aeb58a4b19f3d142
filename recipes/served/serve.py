"""A small server for one model on the CPU, which speaks as vLLM does: see README.md."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from canary import load
from canary.errors import CanaryError, InputError
from canary.models.language_model import Children, Context
from canary.models.noise import nodes_of


@dataclass(frozen=True)
class Status:
    """A failure: its code, what is said of it, and headers."""

    code: int
    body: object = "no"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Served:
    """What a server answers for a model, one request after the other."""

    model: Any
    name: str
    mode: str = "full"
    key: str | None = field(default=None, repr=False)
    per_second: float = math.inf

    def __post_init__(self) -> None:
        self.lock, self._free = threading.Lock(), 0.0

    def models(self) -> Any:
        return {"data": [{"id": self.name, "max_model_len": self.model.facts.length_limit or 4096}]}

    def answer(self, path: str, authorization: str | None, body: dict[str, Any]) -> Any:
        """A document, or a failure, for a request to one of the two paths."""
        if self.key is not None and authorization != f"Bearer {self.key}":
            return Status(401, {"error": {"message": "wrong key"}})
        if path not in {"/v1/completions", "/v1/chat/completions"}:
            return Status(404)
        with self.lock:
            if (wait := self._free - (now := time.monotonic())) > 0:
                return Status(429, "too many requests", {"Retry-After": str(math.ceil(wait))})
            self._free = max(self._free, now - 1) + 1 / self.per_second  # those of a second at once
        try:
            return self.complete(body)
        except CanaryError as error:  # such as a character that the model does not know
            return Status(400, {"error": {"message": str(error)}})

    def complete(self, body: dict[str, Any]) -> Any:
        with self.lock:
            return self.right(body)

    def right(self, body: dict[str, Any]) -> Any:
        if body.get("messages"):
            said = self.right({**body, "prompt": body["messages"][-1]["content"], "messages": ()})
            (choice,) = said["choices"]
            return {**said, "choices": [{**choice, "message": {"content": choice["text"]}}]}
        if body["model"] != self.name:
            return Status(404, {"error": {"message": f"no model {body['model']}"}})
        prompt = self.tokens(body)
        if self.mode == "text" or not body.get("logprobs"):
            return self.sampled(prompt, body)
        own, following = self.read(prompt)
        top = np.argsort(-following, kind="stable")[: body["logprobs"]].tolist()
        show, echo = self.shown(body), body.get("echo") and self.mode == "full"
        names = [show(token) for token in prompt] if echo else []
        tops = [None, *({t: v} for t, v in zip(names[1:], own, strict=True))] if echo else []
        told = {
            "tokens": [*names, show(top[0])],
            "token_logprobs": [*([None, *own] if echo else []), float(following[top[0]])],
            "top_logprobs": [*tops, {show(token): float(following[token]) for token in top}],
        }
        choice = {"text": self.model.tokenizer.decode(top[:1]), "logprobs": told}
        used = {"prompt_tokens": len(prompt)}
        return {"model": self.name, "choices": [choice], "usage": used}

    def sampled(self, prompt: list[int], body: dict[str, Any]) -> Any:
        """Text alone, drawn token by token."""
        rng, drawn, heat = np.random.default_rng(body.get("seed")), [], body.get("temperature", 1)
        for _ in range(body["max_tokens"]):
            following = self.read([*prompt, *drawn])[1]
            shares = np.exp(following / heat) if heat else following == following.max()
            drawn.append(int(rng.choice(len(shares), p=shares / shares.sum())))
        text = self.model.tokenizer.decode(drawn)
        return {"model": self.name, "choices": [{"text": text, "finish_reason": "length"}]}

    def tokens(self, body: dict[str, Any]) -> list[int]:
        """The tokens of a request's prompt."""
        prompt, known = body["prompt"], self.model.facts.vocabulary
        if isinstance(prompt, str):
            (encoding,) = self.model.tokenizer.encode([prompt])
            prompt = encoding.ids
        if not prompt or not all(0 <= token < known for token in prompt):
            raise InputError(f"the prompt is empty, or has a token outside 0 to {known - 1}")
        return list(prompt)

    def shown(self, body: dict[str, Any]) -> Any:
        if body.get("return_tokens_as_token_ids"):
            return lambda token: f"token_id:{token}"
        return lambda token: self.model.tokenizer.decode([int(token)])

    def read(self, prompt: list[int]) -> Any:
        """Log-probabilities of the prompt's tokens after its first, and of all that may follow."""
        everything = Children(np.arange(self.model.facts.vocabulary, dtype=np.int32))
        with self.model.open(Context(np.array(prompt, np.int32)), memory_bytes=2**20) as walker:
            found = walker.expand(nodes_of([[]]), everything, keep=False)
            return walker.context_log_probs.tolist(), found.log_probs[0].astype(np.float64)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.give(self.served.models() if self.path == "/v1/models" else Status(404))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.give(self.served.answer(self.path, self.headers["Authorization"], body))

    def give(self, answer: Any) -> None:
        code, headers = 200, {}
        if isinstance(answer, Status):
            code, headers, answer = answer.code, answer.headers, answer.body
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def listen(served: Served, port: int, handler: type[Handler] = Handler) -> ThreadingHTTPServer:
    """A server at this port of this machine; 0 for any that is free."""
    http = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (handler,), {"served": served}))
    http.daemon_threads = True
    return http


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of a model, or its name on the hub")
    parser.add_argument(
        "--factory",
        metavar="FILE:FUNCTION",
        help="what builds a model that is not from transformers, as for canary",
    )
    parser.add_argument("--served-model-name", default="my-model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--mode", choices=("full", "top", "text"), default="full")
    parser.add_argument("--key-from", metavar="VAR", help="variable that holds the key to ask for")
    parser.add_argument("--requests-per-second", type=float, default=math.inf)
    asked = parser.parse_args()
    key = os.environ[asked.key_from] if asked.key_from else None
    try:
        model = load(asked.model, factory=asked.factory)
    except CanaryError as error:
        own = "" if asked.factory else ". A model that is not from transformers needs --factory"
        sys.exit(f"{error}{own}")
    served = Served(model, asked.served_model_name, asked.mode, key, asked.requests_per_second)
    with listen(served, asked.port) as http:
        print(f"serving at http://127.0.0.1:{http.server_address[1]}/v1", flush=True)
        http.serve_forever()


if __name__ == "__main__":
    main()
