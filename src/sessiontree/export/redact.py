"""Secrets in text: find them, replace them. Pure; knows nothing of sessions but their JSON values.

A session records what an agent read and ran, keys and passwords included. The rules below know the
forms that common services give their tokens, and assignments to names that say "secret". They
are careful rather than complete: whoever publishes an export should still read it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_MAX_DEPTH = 100
_STRETCH = 1 << 20
_REACH = 1 << 16  # no rule needs to see more than this beyond the place where its secret begins
_CONTEXT = 1 << 10  # nor more than this before it


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is in a text, and what kind it looks like."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Rule:
    """A form of secret: a head, one of ``marks``, a tail.

    Marks are characters that texts hold less often than others. No head holds one of its own marks,
    so that where a secret begins settles which mark is meant. ``tail`` begins with the mark,
    ``hint`` is what a secret has around it at least, and ``pattern`` is all of it.
    """

    kind: str
    marks: str
    head: re.Pattern[str]
    tail: re.Pattern[str]
    hint: str
    pattern: str
    is_real: Callable[[str], bool]


_PLACEHOLDER = re.compile(
    r"(?i)^(?:x+|\*+|\.+|-+|_+|<.*|\$.*|\{\{.*|%.*%|none|null|nil|true|false|undefined|string|str|"
    r"(?:your|my|the|an?|some|dummy|fake|example|test|changeme|change_me|placeholder|redacted|"
    r"secret|password|passwd|token|hidden)(?:[_\-. ].*)?|os\.environ.*|process\.env.*|getenv.*|"
    r"env\..*|\[redacted.*)$"
)


def _is_no_placeholder(value: str) -> bool:
    return _PLACEHOLDER.match(value) is None and len(set(value)) > 3


def _looks_random(value: str) -> bool:
    """Letters and digits mixed, as generated tokens are and words of a program are not."""
    return (
        _is_no_placeholder(value)
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and "(" not in value
    )


def _rule(
    kind: str,
    head: str,
    marks: str,
    tail: str,
    *,
    near: str = "",
    is_real: Callable[[str], bool] = bool,
) -> _Rule:
    """``near`` looks back from a mark for the end of a head, where heads differ in width.

    A hint is content with the shortest tail. Many marks in a long tail would else cost much.
    """
    shortest = re.sub(r"(\{\d+,\d*\})(?!\+)", r"\1?", tail)
    return _Rule(
        kind=kind,
        marks=marks,
        head=re.compile(rf"(?:{head})\Z"),
        tail=re.compile(f"[{marks}](?:{tail})"),
        hint=f"(?:{near or f'(?<={head}.)'})(?={shortest})",
        pattern=f"(?:{head})[{marks}](?:{tail})",
        is_real=is_real,
    )


def _begun(width: int, letter: str = r"\w") -> str:
    r"""No letter stands before the last ``width`` characters, so that a word began with them.

    The last letter of an escape in JSON (``\n``, ``\u001b``) and that of a terminal's colour do not
    count: files are searched as they are. Asked after the first characters of a token have been
    found, not everywhere before them, this takes a tenth of the time.
    """
    ends_escape = r"(?<!\\[bfnrt])(?<!\\u[0-9A-Fa-f]{4})(?<![\[;0-9][mK])"
    return rf"(?<!{letter}{ends_escape}{'.' * width})"


_SECRET_NAME = (
    r"(?:api[_-]?key|apikey|secret(?:[_-]?(?:access)?[_-]?key)?|access[_-]?token|auth[_-]?token|"
    r"refresh[_-]?token|client[_-]?secret|private[_-]?key|token|passwd|password|passphrase|pwd)"
)

# The last letters of all names, then as much as may be between a name and its mark.
_NEAR_NAME = "|".join(
    rf"(?<=(?i:[krsoap][ewrs][ytnde])[\\\"'\s]{{{width}}}.)" for width in range(6)
)

# The group of a tail, where it has one, is what is replaced; else all that was found is.
_RULES = (
    _rule(
        "private-key",
        "-----",
        "B",
        # Whole: anything up to its end. Torn: as far as it looks like a key. Neither crosses the
        # next row of dashes and neither steps back, so many beginnings cost no more than one.
        r"EGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----)){0,50000}+-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:[A-Za-z0-9+/=\s\\:,.]|-(?!-))*+)",
    ),
    _rule("aws-key-id", rf"A[KS]{_begun(2)}", "I", r"A[A-Z2-7]{16}\b"),
    _rule("github-token", rf"gh[pousr]{_begun(3)}", "_", r"[A-Za-z0-9]{30,255}\b"),
    _rule("github-token", rf"github{_begun(6)}", "_", r"pat_[A-Za-z0-9_]{40,255}\b"),
    _rule("gitlab-token", rf"glpat{_begun(5)}", "-", r"[A-Za-z0-9_\-]{20,64}"),
    _rule("slack-token", rf"xox[abeoprs]{_begun(4)}", "-", r"[A-Za-z0-9\-]{10,250}"),
    _rule("slack-webhook", "https", ":", r"//hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    _rule("anthropic-key", rf"sk{_begun(2)}", "-", r"ant-[A-Za-z0-9_\-]{20,200}"),
    _rule(
        "openai-key",
        rf"sk{_begun(2)}",
        "-",
        r"(?!ant-)(?:proj-|svcacct-|or-v1-)?[A-Za-z0-9_\-]{20,200}",
        is_real=_looks_random,
    ),
    _rule("stripe-key", rf"[rsp]k{_begun(2)}", "_", r"(?:live|test)_[A-Za-z0-9]{16,250}\b"),
    _rule("google-key", rf"A{_begun(1)}", "I", r"za[A-Za-z0-9_\-]{35}"),
    _rule(
        "google-oauth",
        rf"GOCSPX{_begun(6)}|ya29{_begun(4)}",
        "-.",
        r"(?<=X-)[A-Za-z0-9_\-]{20,60}|(?<=9\.)[A-Za-z0-9_\-]{20,500}",
        near=r"(?<=GOCSPX-)|(?<=ya29\.)",
    ),
    _rule("npm-token", rf"npm{_begun(3)}", "_", r"[A-Za-z0-9]{36}\b"),
    _rule("pypi-token", rf"pypi{_begun(4)}", "-", r"[A-Za-z0-9_\-]{50,250}"),
    _rule("huggingface-token", rf"hf{_begun(2)}", "_", r"[A-Za-z0-9]{30,60}\b"),
    _rule("sendgrid-key", rf"SG{_begun(2)}", ".", r"[A-Za-z0-9_\-]{16,32}\.[A-Za-z0-9_\-]{32,64}"),
    _rule(
        "jwt",
        rf"ey{_begun(2)}",
        "J",
        r"[A-Za-z0-9_\-]{8,4000}+\.eyJ[A-Za-z0-9_\-]{8,8000}+\.[A-Za-z0-9_\-]{8,1000}",
    ),
    _rule(
        "url-password",
        r"\b[a-zA-Z][a-zA-Z0-9+.\-]{1,20}",
        ":",
        r"//[^\s:/@\"'<>]{0,100}:([^\s/@\"'<>]{3,200})@",
        near=r"(?<=[a-zA-Z0-9+.\-]:)",
        is_real=_is_no_placeholder,
    ),
    _rule(
        "authorization",
        "",
        "bB",
        rf"(?i:(?:earer{_begun(6)}|asic{_begun(5)})\s{{1,20}}"
        r"([A-Za-z0-9+/=_.\-~]{16,2000}))",
        is_real=_looks_random,
    ),
    _rule(
        "secret",
        rf"(?i:{_begun(0, '[a-z]')}(?:[a-z0-9]{{1,30}}[_-]){{0,4}}{_SECRET_NAME})"
        r"\\?[\"']?\s{0,3}",
        "=:",
        r"(?:(?<=:)=|(?<==)>)?\s{0,3}"
        r"(?:\\?[\"']([^\"'\s\\]{8,500})|([^\s\"'`,;&|<>(){}\[\]\\]{8,500}))",
        near=_NEAR_NAME,
        is_real=_looks_random,
    ),
)
_FROM_THE_START = (0,) * len(_RULES)
_AUTHORIZATION = [rule.kind for rule in _RULES].index("authorization")
_WIDEST_HEAD = 200  # no head has more characters
_LAST_SPACES = 3  # nor a space before its last three
_IS_FAST = True  # turned off to test one road against the other


def _make_hints() -> tuple[re.Pattern[str], dict[str, tuple[int, ...]]]:
    """A pattern for every mark with what a secret needs around it, and the rules of each mark."""
    marks = dict.fromkeys("".join(rule.marks for rule in _RULES))
    numbers = {
        mark: tuple(number for number, rule in enumerate(_RULES) if mark in rule.marks)
        for mark in marks
    }
    hints = {mark: "|".join(_RULES[number].hint for number in numbers[mark]) for mark in marks}
    return re.compile("|".join(f"{re.escape(mark)}(?:{hints[mark]})" for mark in marks)), numbers


_HINTS, _RULES_BY_MARK = _make_hints()


class _Hit(NamedTuple):
    """What a rule has found: where, and what of it is the secret."""

    number: int
    start: int
    match: re.Match[str]

    @property
    def span(self) -> tuple[int, int]:
        group = self.match.lastindex
        return self.match.span(group) if group else (self.start, self.match.end())

    @property
    def is_real(self) -> bool:
        return _RULES[self.number].is_real(self.match.string[slice(*self.span)])

    def as_secret(self, offset: int = 0) -> Secret:
        start, end = self.span
        return Secret(_RULES[self.number].kind, start + offset, end + offset)


def find_secrets(text: str) -> list[Secret]:
    """The secrets of a text, in order, none inside another."""
    hits = _find_hits(text, _FROM_THE_START)
    found = [(hit.number, hit.as_secret()) for hit in hits if hit.is_real]
    return list(_apart(found)) if found else []


def _apart(found: list[tuple[int, Secret]], end: int = -1) -> Iterator[Secret]:
    """Of secrets that overlap the one that begins first, is longest, or has the first rule."""
    found.sort(key=lambda one: (one[1].start, -one[1].end, one[0]))
    for _, secret in found:
        if secret.start >= end:
            yield secret
            end = secret.end


def _find_hits(text: str, begins: Sequence[int]) -> Iterator[_Hit]:
    """What each rule finds from its place in ``begins`` on, from left to right, never overlapping.

    In which order rules take turns differs between the two roads, what they find does not.
    """
    return _follow_hints(text, begins) if _IS_FAST else _try_everywhere(text, begins)


def _try_everywhere(text: str, begins: Sequence[int]) -> Iterator[_Hit]:
    """The plain road: it says what is right."""
    places = _choose_places(text, begins)
    for number, rule in enumerate(_RULES):
        for match in re.compile(rule.pattern).finditer(text, places[number]):
            yield _Hit(number, match.start(), match)


def _follow_hints(text: str, begins: Sequence[int]) -> Iterator[_Hit]:
    """The fast road: rules are tried only at marks with something fitting around them."""
    places: list[int] = []
    for hint in _HINTS.finditer(text):
        places = places or _choose_places(text, begins)
        mark = hint.start()
        for number in _RULES_BY_MARK[hint[0]]:
            begin = places[number]
            if begin > mark:
                continue
            places[number] = mark + 1
            rule = _RULES[number]
            if match := rule.tail.match(text, mark):
                begin = max(begin, mark - _WIDEST_HEAD)
                begin = max(begin, text.rfind(" ", begin, max(0, mark - _LAST_SPACES)))
                if head := rule.head.search(text, begin, mark):
                    places[number] = match.end()
                    yield _Hit(number, head.start(), match)


def _choose_places(text: str, begins: Sequence[int]) -> list[int]:
    """Where each rule begins: beyond the end if the text is not to be searched with it."""
    places = list(begins)
    if not text.isascii() and ("ı" in text or "İ" in text):
        # These pass for the "i" of "basic", but only in a text that also has one of the words.
        folded = text.casefold()
        if "bearer" not in folded and "basic" not in folded:
            places[_AUTHORIZATION] = len(text) + 1
    return places


def find_secrets_in_pieces(pieces: Iterable[str]) -> Iterator[tuple[int, Secret]]:
    """The secrets of a text of any length, each with its line: as ``find_secrets`` finds them.

    Only a stretch of the text is kept at a time, however the pieces cut it.
    """
    search = _Search()
    waiting: list[str] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= _STRETCH:
            yield from search.look_at("".join(waiting))
            waiting, size = [], 0
    yield from search.look_at("".join(waiting), is_last=True)


class _Search:
    """How far a text that comes in stretches has been searched.

    A secret counts in the first stretch that shows all of it for certain: one that begins within
    reach of the end is left to the next, which begins with what it needs to be seen again.
    """

    def __init__(self) -> None:
        self._text = ""
        self._offset = 0
        self._resume = [0] * len(_RULES)  # each rule goes on where its last match ended
        self._end = 0
        self._line = 1
        self._counted = 0

    def look_at(self, stretch: str, *, is_last: bool = False) -> Iterator[tuple[int, Secret]]:
        self._text += stretch
        size = len(self._text)
        horizon = size + 1 if is_last else size - _REACH
        for secret in _apart(list(self._settle(horizon)), self._end):
            self._end = secret.end
            yield self._line_of(secret.start), secret
        if not is_last:
            self._drop(max(0, horizon - _CONTEXT))

    def _settle(self, horizon: int) -> Iterator[tuple[int, Secret]]:
        """What the rules find before the horizon."""
        settling = set(range(len(_RULES)))
        for hit in _find_hits(self._text, [place - self._offset for place in self._resume]):
            number = hit.number
            if number not in settling:
                continue
            if hit.span[0] >= horizon:
                settling.remove(number)
                self._go_on(number, min(hit.start, horizon))
                continue
            self._go_on(number, hit.match.end())
            if hit.is_real:
                yield number, hit.as_secret(self._offset)
        for number in settling:
            self._go_on(number, horizon)

    def _go_on(self, number: int, place: int) -> None:
        self._resume[number] = max(self._resume[number], place + self._offset)

    def _line_of(self, place: int) -> int:
        self._line += self._text.count("\n", self._counted - self._offset, place - self._offset)
        self._counted = place
        return self._line

    def _drop(self, count: int) -> None:
        if self._counted < self._offset + count:
            self._line_of(self._offset + count)
        self._text = self._text[count:]
        self._offset += count


class Redactor:
    """Replaces secrets and keeps count. One for each export."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def redact_text(self, text: str) -> str:
        """The text with every secret replaced by ``[redacted:KIND]``."""
        pieces: list[str] = []
        done = 0
        for secret in find_secrets(text):
            self.counts[secret.kind] += 1
            pieces += [text[done : secret.start], f"[redacted:{secret.kind}]"]
            done = secret.end
        return "".join([*pieces, text[done:]]) if pieces else text

    def redact_value(self, value: Any, depth: int = 0) -> Any:
        """A copy of a JSON value with the secrets of all its strings replaced.

        A string under a name that says "secret" is one, whatever it looks like. Image data is
        passed over: it is no text. What is nested beyond any reason is replaced whole.
        """
        if depth > _MAX_DEPTH:
            self.counts["too-deep"] += 1
            return "[redacted:too-deep]"
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, list):
            return [self.redact_value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {key: self._redact_item(value, key, depth) for key in value}
        return value

    def _redact_item(self, holder: Mapping[str, Any], key: str, depth: int) -> Any:
        value = holder[key]
        if key == "data" and holder.get("type") == "image":
            return value
        if isinstance(value, str) and _NAMES_SECRET.fullmatch(key) and _hides_something(value):
            self.counts["secret"] += 1
            return "[redacted:secret]"
        return self.redact_value(value, depth + 1)


_NAMES_SECRET = re.compile(rf"(?i)(?:[a-z0-9]+[_-])*{_SECRET_NAME}")


def _hides_something(value: str) -> bool:
    return len(value) >= 6 and " " not in value and _is_no_placeholder(value)
