"""Find secrets in text: passwords, keys and tokens, by the forms in ``rules``. Pure.

A session records what an agent read and ran, keys and passwords included. The rules know the forms
they have, but not all there are: read a text before you publish it.

How it works. Trying some ninety patterns at every character would take seconds for each megabyte.
So every rule names a mark, a character that texts seldom hold (``_``, ``-``, ``=``, ``:``), and one
pattern, made from all rules, runs from mark to mark and asks what little can be asked there: do the
letters before it end a known head, can the characters after it begin a value? Only where the answer
is yes is a rule tried. The plain way, which tries each rule everywhere, says what is right; a test
compares the two.

What is searched is not quite the text. Terminal sequences split words (``grep --color`` puts one
into the middle of a token), and some encoders spell quotes and signs as escapes; ``_Plain`` is the
text without the first and with the second read, and knows where each character came from.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sessiontree.text.secrets.rule import CONTEXT, DIGIT_SOON
from sessiontree.text.secrets.rules import RULES

_STRETCH = 1 << 20
_REACH = 1 << 16  # no rule needs to see more than this beyond the place where its secret begins
_BEFORE = 1 << 10  # nor more than this before it
_IS_FAST = True  # turned off to compare one way with the other
_SHORTEST = 10  # what is shorter holds no name with its value, and no token
_FROM_THE_START = (0,) * len(RULES)


@dataclass(frozen=True, slots=True)
class Secret:
    """The place of a secret in a text, and the kind it looks like."""

    kind: str
    start: int
    end: int


def find_secrets(text: str) -> list[Secret]:
    """The secrets of a text, in order, none inside another."""
    if len(text) < _SHORTEST:
        return []
    plain = _Plain(text)
    found = [hit.placed(plain) for hit in _find_hits(plain.text, _FROM_THE_START)]
    return list(_apart(found)) if found else []


def _apart(found: list[tuple[int, Secret]], end: int = -1) -> Iterator[Secret]:
    """Of secrets that overlap the one that begins first, is longest, or has the first rule."""
    found.sort(key=lambda one: (one[1].start, -one[1].end, one[0]))
    for _, secret in found:
        if secret.start >= end:
            yield secret
            end = secret.end


# -- the text without what splits words ------------------------------------------------------------

_SEQUENCE = (
    "[\x1b\x9b](?:(?:(?<=\x9b)|\\[)[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\\\)|"
    "[()][A-Z0-9]|[@-Z\\\\^_=>78])"
)
_ESCAPE = r"\\u00(?:(2[0-9a-fA-F]|3[a-fA-F])|1[bB]\[[0-9;?]{0,20}[A-Za-z])"
_ENTITY = "&(?:quot|amp|apos|#34|#39|#x22|#x27);"
_SEQUENCES, _ESCAPES, _ENTITIES = map(re.compile, (_SEQUENCE, _ESCAPE, _ENTITY))
# A sequence right before one of these parts it from the word before; others part nothing.
_BEGINNING = re.compile(
    "|".join(re.escape(begin) for rule in RULES for begin in rule.begins)
    + "|A[KS]IA|AIza|eyJ|B[eE][aA]|B[aA][sS]|[pP][aA][sS][sS]"
)
_BREAK = "\x1b"
_MEANING = {"&quot;": '"', "&#34;": '"', "&#x22;": '"', "&amp;": "&"}


class _Plain:
    """A text without terminal sequences and with simple escapes read; places lead both ways."""

    __slots__ = ("_ends", "_origins", "_starts", "text")

    def __init__(self, text: str) -> None:
        if "\\" in text:
            text = text.replace("\\n", " \n").replace("\\t", " \t")  # as long as before
        self.text = text
        # Runs of the plain text: where each begins here and there, and where it ends there.
        self._starts: list[int] = []
        self._origins: list[int] = []
        self._ends: list[int] = []
        noises: list[re.Match[str]] = []
        if "\x1b" in text or "\x9b" in text:
            noises += _SEQUENCES.finditer(text)
        if "\\" in text:
            noises += _ESCAPES.finditer(text)
        if "&" in text:
            noises += _ENTITIES.finditer(text)
        if noises:
            self._strip(text, sorted(noises, key=lambda noise: noise.start()))

    def _strip(self, text: str, noises: list[re.Match[str]]) -> None:
        pieces: list[str] = []
        size = done = 0
        for noise in noises:
            if noise.start() < done:
                continue
            if noise.start() > done:
                size = self._add(pieces, text[done : noise.start()], size, done, noise.start())
            done = noise.end()
            read = _read(noise)
            if not read and _BEGINNING.match(text, done):
                read = _BREAK
            if read:
                size = self._add(pieces, read, size, noise.start(), done)
        if done < len(text):
            self._add(pieces, text[done:], size, done, len(text))
        self.text = "".join(pieces)

    def _add(self, pieces: list[str], piece: str, size: int, origin: int, end: int) -> int:
        pieces.append(piece)
        self._starts.append(size)
        self._origins.append(origin)
        self._ends.append(end)
        return size + len(piece)

    def origin(self, place: int) -> int:
        """The place in the text itself of this character of the plain text."""
        if not self._starts:
            return place
        if place >= len(self.text):
            return self._ends[-1] + place - len(self.text)
        run = bisect_right(self._starts, place) - 1
        return self._origins[run] + place - self._starts[run]

    def origin_of_end(self, place: int) -> int:
        """The end in the text itself of what ends here in the plain text."""
        if not self._starts or place == 0:
            return place
        run = bisect_right(self._starts, place - 1) - 1
        if place == (self._starts[run + 1] if run + 1 < len(self._starts) else len(self.text)):
            return self._ends[run]
        return self._origins[run] + place - self._starts[run]

    def place(self, origin: int) -> int:
        """The first place of the plain text that came from there or later."""
        if not self._starts:
            return origin
        run = bisect_right(self._origins, origin) - 1
        if run < 0:
            return 0
        here = self._starts[run] + origin - self._origins[run]
        after = self._starts[run + 1] if run + 1 < len(self._starts) else len(self.text)
        return min(here, after) if origin == self._origins[run] or here < after else after


def _read(noise: re.Match[str]) -> str:
    if noise.lastindex:
        return chr(int(noise[1], 16))
    return _MEANING.get(noise[0], "'") if noise[0][0] == "&" else ""


# -- looking ---------------------------------------------------------------------------------------

_HEADS = tuple(re.compile(rf"(?:{rule.head})\Z") for rule in RULES)
_TAILS = tuple(re.compile(f"[{re.escape(rule.marks)}](?:{rule.tail})") for rule in RULES)
_BEGINS = tuple(rule.begins for rule in RULES)
_CONTEXTS = tuple(re.compile(rule.context) for rule in RULES)
_NEVER = tuple(re.compile(rule.never) for rule in RULES)
_COMMON_MARKS_FIRST = sorted(
    {mark for rule in RULES for mark in rule.marks}, key=lambda mark: f"_pc.-:k{mark}".index(mark)
)
_RULES_BY_MARK = {
    mark: tuple(number for number, rule in enumerate(RULES) if mark in rule.marks)
    for mark in _COMMON_MARKS_FIRST
}


@dataclass(frozen=True, slots=True)
class _Hit:
    """What a rule has found: where it begins, where the rule goes on, and the secret within."""

    number: int
    start: int
    end: int
    span: tuple[int, int]

    def placed(self, plain: _Plain) -> tuple[int, Secret]:
        start, end = self.span
        secret = Secret(RULES[self.number].kind, plain.origin(start), plain.origin_of_end(end))
        return self.number, secret


def _find_hits(text: str, begins: Sequence[int]) -> Iterator[_Hit]:
    """What each rule finds from its place in ``begins`` on, never overlapping."""
    places: list[int] = []
    for mark in (_HINTS if _IS_FAST else _MARKS).finditer(text):
        places = places or list(begins)
        for number in _RULES_BY_MARK[mark[0]]:
            begins_of = _BEGINS[number]
            if begins_of and not text.endswith(begins_of, 0, mark.start()):
                continue
            if places[number] <= mark.start():
                hit = _try(number, text, mark.start(), places[number])
                if hit is not None:
                    places[number] = hit.end
                    yield hit


def _try(number: int, text: str, mark: int, begin: int) -> _Hit | None:
    """What the rule finds around this mark, its head beginning no earlier than ``begin``."""
    # What fails most often is asked first.
    tail = _TAILS[number].match(text, mark)
    if tail is None:
        return None
    rule = RULES[number]
    start, end = tail.span(tail.lastindex) if tail.lastindex else (mark, tail.end())
    if not rule.is_real(text[start:end]):
        return None
    head = _HEADS[number].search(text, max(begin, mark - rule.width), mark)
    if head is None:
        return None
    if rule.context and not _stands_in(_CONTEXTS[number], text, head.start()):
        return None
    if rule.never and _stands_in(_NEVER[number], text, head.start()):
        return None
    return _Hit(number, head.start(), tail.end(), (start if tail.lastindex else head.start(), end))


def _stands_in(context: re.Pattern[str], text: str, place: int) -> bool:
    """Whether something stands on the line before this place."""
    first = max(0, place - CONTEXT)
    first = max(first, text.rfind("\n", first, place) + 1)
    return context.search(text, first, place) is not None


def _make_hints() -> re.Pattern[str]:
    """All marks, each with what the rules want around it."""
    hints = (f"{re.escape(mark)}(?:{_hint(mark)})" for mark in _RULES_BY_MARK)
    return re.compile("|".join(hints))


def _hint(mark: str) -> str:
    rules = [RULES[number] for number in _RULES_BY_MARK[mark]]
    begins = sorted({begin for rule in rules for begin in rule.begins})
    conditions = list(dict.fromkeys(rule.near for rule in rules if not rule.begins))
    if begins:
        conditions.append(_near_beginnings(begins))
    return "|".join(conditions)


def _near_beginnings(begins: Sequence[str]) -> str:
    """What ends like one of these words right before the mark, and has a digit soon after it."""
    short = "|".join(re.escape(begin) for begin in begins if len(begin) < 3)
    ends = sorted({begin[-3:] for begin in begins if len(begin) >= 3})
    letters = ("".join(sorted({end[place] for end in ends})) for place in range(3))
    any_of = "".join(f"[{re.escape(each)}]" for each in letters)
    endings = "|".join(map(re.escape, ends))
    near = [f"(?<=(?:{short}).)"] if short else []
    near += [f"(?<={any_of}.)(?<=(?:{endings}).)"] if ends else []
    return f"(?:{'|'.join(near)}){DIGIT_SOON}"


_MARKS = re.compile(f"[{re.escape(''.join(_RULES_BY_MARK))}]")
_HINTS = _make_hints()


# -- texts of any length ---------------------------------------------------------------------------


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
        plain = _Plain(self._text)
        size = len(plain.text)
        horizon = size + 1 if is_last else plain.place(max(0, len(self._text) - _REACH))
        for secret in _apart(list(self._settle(plain, horizon)), self._end):
            self._end = secret.end
            yield self._line_of(secret.start), secret
        if not is_last:
            self._drop(plain.origin(max(0, horizon - _BEFORE)))

    def _settle(self, plain: _Plain, horizon: int) -> Iterator[tuple[int, Secret]]:
        """What the rules find before the horizon."""
        settling = set(range(len(RULES)))
        begins = [plain.place(max(0, place - self._offset)) for place in self._resume]
        for hit in _find_hits(plain.text, begins):
            if hit.number not in settling:
                continue
            if hit.span[0] >= horizon:
                settling.remove(hit.number)
                self._go_on(hit.number, plain.origin(min(hit.start, horizon)))
                continue
            self._go_on(hit.number, plain.origin(hit.end))
            number, secret = hit.placed(plain)
            start, end = secret.start + self._offset, secret.end + self._offset
            yield number, Secret(secret.kind, start, end)
        for number in settling:
            self._go_on(number, plain.origin(horizon))

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
