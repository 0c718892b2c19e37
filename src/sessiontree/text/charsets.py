"""Spell text for terminals that are not UTF-8. Pure.

Marks and lines such as the program draws get a likeness in ASCII, even where the encoding has them:
what a terminal says of its encoding is often wrong. What else the encoding lacks is spelled as an
escape in running text (`spell`), which loses nothing, and as one letter or ``?`` a column on a
screen (`spell_cells`), where every column counts.
"""

from __future__ import annotations

import codecs

from sessiontree.text.width import text_width

_LIKENESS = str.maketrans(
    {
        **dict.fromkeys("·•◦▪", "-"),
        **dict.fromkeys("─━╌╍═–—‐‑‒―", "-"),
        **dict.fromkeys("│┃║╎╏▌▎▏▍▐▕", "|"),
        **dict.fromkeys("┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋╔╗╚╝╠╣╦╩╬╭╮╯╰╞╡╪", "+"),
        **dict.fromkeys("█▉▊▋▇▆▅▄▃▂▁▀▔░▒▓■▣", "#"),
        **dict.fromkeys("❯›▸→↪↳»▶", ">"),
        **dict.fromkeys("←‹«◀", "<"),
        **dict.fromkeys("↑▲", "^"),
        **dict.fromkeys("↓▼", "v"),
        **dict.fromkeys("●✦◆★", "*"),
        **dict.fromkeys("○☐◇", "o"),
        **dict.fromkeys("✗×✘", "x"),
        **dict.fromkeys("✓✔☑", "+"),
        **dict.fromkeys("⠋⠴⠏", "|"),
        **dict.fromkeys("⠙⠦", "/"),
        **dict.fromkeys("⠹⠼⠧", "-"),
        **dict.fromkeys("⠸⠇", "\\"),
        **dict.fromkeys("‘’‚", "'"),
        **dict.fromkeys("“”„", '"'),
        "…": "~",
        "\xa0": " ",
    }
)


def is_unicode(encoding: str | None) -> bool:
    """Whether an encoding has all characters."""
    try:
        return codecs.lookup(encoding or "ascii").name.startswith(("utf-", "utf_", "gb18030"))
    except LookupError:
        return False


def spell(text: str, encoding: str | None, *, is_exact: bool = False) -> str:
    """The text in characters that the encoding has; what has no likeness becomes an escape.

    An exact one has escapes only.
    """
    known = encoding or "ascii"
    text = text if is_exact or is_unicode(known) else _liken(text)
    if _fits(text, known):
        return text
    return "".join(
        letter
        if _fits(letter, known)
        else letter.encode("ascii", "backslashreplace").decode("ascii")
        for letter in text
    )


def spell_cells(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has, each as wide as the one it stands for."""
    known = encoding or "ascii"
    text = text if is_unicode(known) else _liken(text)
    if _fits(text, known):
        return text
    return "".join(letter if _fits(letter, known) else _letter_or_marks(letter) for letter in text)


def _liken(text: str) -> str:
    return text if text.isascii() else text.translate(_LIKENESS)


def _letter_or_marks(letter: str) -> str:
    import unicodedata  # only here: most terminals have every letter

    base = unicodedata.normalize("NFKD", letter)[0]
    width = text_width(letter)
    return base if base.isascii() and base.isprintable() and width == 1 else "?" * width


def _fits(text: str, encoding: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
