"""The forms that secrets have: tokens of common services, and assignments to names that say so.

Each is said once, in three parts, so that ``redact`` can look for the rarest character of a form
first. They are careful rather than complete. What is done with a secret is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
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


def is_no_placeholder(value: str) -> bool:
    """Whether a value may be a secret, and does not just stand where one would."""
    return _PLACEHOLDER.match(value) is None and len(set(value)) > 3


def _looks_random(value: str) -> bool:
    """Letters and digits mixed, as generated tokens are and words of a program are not."""
    return (
        is_no_placeholder(value)
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
) -> Rule:
    """``near`` looks back from a mark for the end of a head, where heads differ in width.

    A hint is content with the shortest tail. Many marks in a long tail would else cost much.
    """
    shortest = re.sub(r"(\{\d+,\d*\})(?!\+)", r"\1?", tail)
    return Rule(
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


SECRET_NAME = (
    r"(?:api[_-]?key|apikey|secret(?:[_-]?(?:access)?[_-]?key)?|access[_-]?token|auth[_-]?token|"
    r"refresh[_-]?token|client[_-]?secret|private[_-]?key|token|passwd|password|passphrase|pwd)"
)

# The last letters of all names, then as much as may be between a name and its mark.
_NEAR_NAME = "|".join(
    rf"(?<=(?i:[krsoap][ewrs][ytnde])[\\\"'\s]{{{width}}}.)" for width in range(6)
)

# The group of a tail, where it has one, is what is replaced; else all that was found is.
RULES = (
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
        is_real=is_no_placeholder,
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
        rf"(?i:{_begun(0, '[a-z]')}(?:[a-z0-9]{{1,30}}[_-]){{0,4}}{SECRET_NAME})"
        r"\\?[\"']?\s{0,3}",
        "=:",
        r"(?:(?<=:)=|(?<==)>)?\s{0,3}"
        r"(?:\\?[\"']([^\"'\s\\]{8,500})|([^\s\"'`,;&|<>(){}\[\]\\]{8,500}))",
        near=_NEAR_NAME,
        is_real=_looks_random,
    ),
)
