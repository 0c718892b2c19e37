"""Any text as a query, a prompt, a title, an output or a place for secrets."""

from __future__ import annotations

import atheris

with atheris.instrument_imports(include=["sessiontree"]):
    from sessiontree import HistoryStorage
    from sessiontree.cli import output
    from sessiontree.discovery.search.query import parse_query
    from sessiontree.discovery.search.scan import Matcher, make_snippet
    from sessiontree.export import markdown_safety as safe
    from sessiontree.export.redact import Redactor
    from sessiontree.model.header import TitleSlot
    from sessiontree.text.secrets import find_secrets
    from sessiontree.tui import safe_text

from tests.torture.fuzzing import fuzz, scratch_folder, text_of

SEEDS = [
    text.encode("utf-16-le")
    for text in (
        'word "a phrase" begin* -without c++ OR NEAR( ) ^ : {col} AND',
        "\x1b]0;owned\x07\x9b31m\u202etxt.exe\u2066\u200f\U000e0041",
        "AKIAIOSFODNN7EXAMPLE password = hunter2hunter2 ghp_" + "a1" * 20,
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "```\n# heading\n| table | <script>alert(1)</script> [x](javascript:y)\n```",
    )
]
_history = HistoryStorage(scratch_folder() / "history.db")
for _text in ("the quick brown fox", "c++ templates", 'say "hello" OR not'):
    _history.add(_text)
_history.flush()


def try_one(data: bytes) -> None:
    text = text_of(data)
    query = parse_query(text)
    matcher = Matcher(query)
    for words in ("The quick brown fox jumps.", text):
        spans = [span for found in matcher.find(words) for span in found]
        make_snippet(words, spans)
    _history.search(text, 3)
    assert not _has_control(output.one_line(text))
    assert not _has_control(output.block(text).replace("\n", "").replace("\t", ""))
    assert not _has_control(safe_text.block(text).replace("\n", "").replace("\t", ""))
    TitleSlot(text[:300], None, "2026-02-16T10:20:30.000Z").encode()
    redacted = Redactor().redact_text(text)
    assert not find_secrets(redacted) or "[redacted:" in redacted
    for word in (
        safe.inline,
        safe.code,
        safe.quote,
        safe.fence,
    ):
        word(text)


def _has_control(text: str) -> bool:
    return any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in text)


if __name__ == "__main__":
    fuzz(try_one, SEEDS)
