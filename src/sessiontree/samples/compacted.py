"""The sample with a compaction: an older part that the model no longer sees, but the file keeps."""

from __future__ import annotations

from sessiontree.samples.speaking import SampleSession, answer, ask

_SERVER = """\
```python
from http.server import BaseHTTPRequestHandler, HTTPServer


class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")


HTTPServer(("127.0.0.1", 8000), Hello).serve_forever()
```"""

_TALK = (
    (
        "I want a small web server in Python. Where do I start?",
        "With `http.server` from the standard library: one class, one method, no installation.",
    ),
    ("Show me the smallest one.", _SERVER),
    (
        "Why 127.0.0.1?",
        "So that only this machine can reach it. `0.0.0.0` would offer it to the whole network.",
    ),
    (
        "It answers one visitor after the other. Is that bad?",
        "For trying things out, no. `ThreadingHTTPServer` has a thread for each visitor.",
    ),
    (
        "And for the real world?",
        "Then a framework and a server made for it. Keep this one for tests and tools.",
    ),
)

_SUMMARY = """\
## Goal
A small web server in Python, to understand how one works.

## Decisions
- `http.server` from the standard library; no installation.
- Bind to 127.0.0.1, so that only this machine reaches it.

## Progress
- Done: the smallest server, with one handler class.
- Done: why visitors wait for each other; `ThreadingHTTPServer` as the way out.

## Next steps
- Decide what a real deployment would need."""


def tell(manager: SampleSession) -> None:
    """Fill the session."""
    kept = ""
    for number, (question, reply) in enumerate(_TALK):
        entry_id = ask(manager, question)
        if number == len(_TALK) - 1:
            kept = entry_id
        answer(manager, reply, tokens=3000 * (number + 1))
    manager.append_compaction(
        _SUMMARY,
        kept,
        15_000,
        short_summary="A small web server, step by step",
        details={"readFiles": [], "modifiedFiles": ["server.py"]},
    )
    ask(manager, "What did we decide about the address?")
    answer(
        manager,
        "To bind to 127.0.0.1, so that only this machine reaches it.\n\nI know this from the "
        "summary: the talk before it is no longer in my sight, but `sessiontree show --full` "
        "still shows all of it.",
        tokens=900,
    )
