"""Secrets in text: find them, replace them. Pure; knows nothing of sessions but their JSON values.

A session records what an agent read and ran, keys and passwords included. ``secret_rules`` knows
the forms they have, but not all there are: whoever publishes an export should still read it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sessiontree.export.secret_rules import RULES, SECRET_NAME, is_no_placeholder

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


_FROM_THE_START = (0,) * len(RULES)
_WIDEST_HEAD = 200  # no head has more characters
_LAST_SPACES = 3  # nor a space before its last three
_IS_FAST = True  # turned off to test one road against the other


def _make_hints() -> tuple[re.Pattern[str], dict[str, tuple[int, ...]]]:
    """A pattern for every mark with what a secret needs around it, and the rules of each mark."""
    marks = dict.fromkeys("".join(rule.marks for rule in RULES))
    numbers = {
        mark: tuple(number for number, rule in enumerate(RULES) if mark in rule.marks)
        for mark in marks
    }
    hints = {mark: "|".join(RULES[number].hint for number in numbers[mark]) for mark in marks}
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
        return RULES[self.number].is_real(self.match.string[slice(*self.span)])

    def as_secret(self, offset: int = 0) -> Secret:
        start, end = self.span
        return Secret(RULES[self.number].kind, start + offset, end + offset)


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
    for number, rule in enumerate(RULES):
        for match in re.compile(rule.pattern).finditer(text, begins[number]):
            yield _Hit(number, match.start(), match)


def _follow_hints(text: str, begins: Sequence[int]) -> Iterator[_Hit]:
    """The fast road: rules are tried only at marks with something fitting around them."""
    places: list[int] = []
    for hint in _HINTS.finditer(text):
        places = places or list(begins)
        mark = hint.start()
        for number in _RULES_BY_MARK[hint[0]]:
            begin = places[number]
            if begin > mark:
                continue
            places[number] = mark + 1
            rule = RULES[number]
            if match := rule.tail.match(text, mark):
                begin = max(begin, mark - _WIDEST_HEAD)
                begin = max(begin, text.rfind(" ", begin, max(0, mark - _LAST_SPACES)))
                if head := rule.head.search(text, begin, mark):
                    places[number] = match.end()
                    yield _Hit(number, head.start(), match)


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
        self._resume = [0] * len(RULES)  # each rule goes on where its last match ended
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
        settling = set(range(len(RULES)))
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


_NAMES_SECRET = re.compile(rf"(?i)(?:[a-z0-9]+[_-])*{SECRET_NAME}")


def _hides_something(value: str) -> bool:
    return len(value) >= 6 and " " not in value and is_no_placeholder(value)
