"""Text for generated sessions: made once from a seed, JSON-escaped, drawn by size.

Owns what the corpus's words look like. Two banks, prose and program output, hold snippets in
doubling size classes; drawing one is a list lookup, so that gigabytes are written at disk speed.
"""

from __future__ import annotations

import json
import math
import random

_ONSETS = ["b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "k", "l", "m", "n"]
_ONSETS += ["p", "pr", "qu", "r", "s", "sh", "st", "t", "tr", "v", "w", "y", "z", "zh"]
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "io", "ou"]
_CODAS = ["", "", "n", "r", "s", "t", "l", "m", "nd", "st", "ck"]
_SMALL = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "in",
    "is",
    "for",
    "with",
    "this",
    "that",
    "not",
    "it",
    "we",
]
_OUTPUT = [
    '    def {0}_{1}(self, {2}: {3}, *, {4}=None) -> {0}: return self._{1}("{2}", {n})',
    "src/{0}/{1}_{2}.py:{n}:{m}: error: {3} {4} is not {1}",
    "\x1b[32m✓\x1b[0m {0} › {1} {2} ({n} ms)",
    '  "{0}": {{"{1}": {n}, "path": "C:\\\\{2}\\\\{3}", "{4}": true}},',
    "drwxr-xr-x  {n} {0} {1} {m} Jun 15 10:20 {2}-{3}",
    "[10:{n:02d}:{m:02d}] INFO {0}.{1}: {2} {3} id=0x{h:08x}",
    "-\treturn {0}({1}, {2})\n+\treturn await {0}({1}, {2}, timeout={n})",
    "│ {0:<14} │ {1:<14} │ {n:>6} │ — «{2}» … {3}",
]
_CLASSES = range(5, 16)  # snippets of about 32 bytes up to 32 KB
_PER_CLASS = 160


class Bank:
    """Snippets of one kind of text, each valid inside a JSON string."""

    def __init__(self, seed: int, *, prose: bool) -> None:
        self._r = random.Random(seed)
        self._vocabulary = self._make_vocabulary(4_000)
        make = self._sentence if prose else self._output_line
        lines = [json.dumps(make(), ensure_ascii=False)[1:-1].encode() for _ in range(6_000)]
        self._snippets = [[self._snippet(lines, 2**k) for _ in range(_PER_CLASS)] for k in _CLASSES]

    def draw(self, r: random.Random, low: int, high: int) -> bytes:
        """A snippet of about ``low`` to ``high`` bytes, log-uniformly."""
        size = math.log2(low) + (math.log2(high) - math.log2(low)) * r.random()
        at = min(max(round(size), _CLASSES.start), _CLASSES.stop - 1) - _CLASSES.start
        return self._snippets[at][int(r.random() * _PER_CLASS)]

    def _snippet(self, lines: list[bytes], size: int) -> bytes:
        at = self._r.randrange(len(lines))
        taken: list[bytes] = []
        length = 0
        while length < size * 0.8:
            line = lines[at % len(lines)]
            taken.append(line)
            length += len(line) + 2
            at += 1
        return rb"\n".join(taken)

    def _make_vocabulary(self, count: int) -> list[str]:
        made = dict.fromkeys(_SMALL)
        while len(made) < count:
            syllables = self._r.choices([1, 2, 3], [2, 5, 2])[0]
            made["".join(self._syllable() for _ in range(syllables))] = None
        return list(made)

    def _syllable(self) -> str:
        return self._r.choice(_ONSETS) + self._r.choice(_VOWELS) + self._r.choice(_CODAS)

    def _word(self) -> str:
        # Squaring the draw gives the uneven word frequencies that an index meets in real text.
        return self._vocabulary[int(self._r.random() ** 2 * len(self._vocabulary))]

    def _sentence(self) -> str:
        text = " ".join(self._word() for _ in range(self._r.randint(5, 20))).capitalize()
        kind = self._r.random()
        if kind < 0.08:
            return f"- `{self._word()}.{self._word()}()` — {text}"
        if kind < 0.1:
            return f"## 日本語の見出し {text} 🚀"
        return text + (".\n" if kind < 0.2 else ".")

    def _output_line(self) -> str:
        words = [self._word() for _ in range(5)]
        numbers = {"n": self._r.randint(1, 59), "m": self._r.randint(1, 59)}
        return self._r.choice(_OUTPUT).format(*words, **numbers, h=self._r.getrandbits(32))
