"""Rule, one form of secret, and the building blocks of their patterns.

A rule says where to look (a mark: a character that text seldom holds), what stands before and after
it, what else must stand earlier on the line, and which values are not secrets. ``rules``
holds them all, ``search`` does the looking.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sessiontree.text.secrets.values import is_anything, is_token

CONTEXT = 200
"""How far back on its line a rule may look for its context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One form of secret: a head, one of ``marks``, a tail.

    ``tail`` follows the mark; its last group, where it has one, is the secret, else all of head,
    mark and tail is. ``near`` is a cheap condition asked right after every mark, before anything
    else: it must let every secret of the rule pass. ``begins`` are the heads of tokens, which need
    no ``near``. ``width`` bounds how far before its mark a head begins. ``context`` is looked for
    earlier on the line, and ``never`` is what the head must not continue. ``is_real`` judges the
    value. In an example ``«alnum 36»`` stands for 36 random letters and digits: examples must be
    found, counterexamples left alone.
    """

    kind: str
    marks: str
    head: str = ""
    tail: str
    near: str = ""
    begins: tuple[str, ...] = ()
    width: int = 40
    context: str = ""
    never: str = ""
    is_real: Callable[[str], bool] = is_anything
    examples: tuple[str, ...] = ()
    counterexamples: tuple[str, ...] = ()


# -- pieces of patterns ----------------------------------------------------------------------------


def begun(width: int) -> str:
    r"""No letter stands before the last ``width`` characters, so that a word began with them.

    The last letter of an escape in JSON (``\n``, ``\u001b``) does not count: files are searched as
    they are. Asked after the first characters of a token have been found, not everywhere before
    them, this takes a tenth of the time.
    """
    return rf"(?<!\w(?<!\\[bfnrt])(?<!\\u[0-9A-Fa-f]{{4}}){'.' * width})"


def any_case(words: str) -> str:
    """These words in capitals or not. Plainer than a flag, and so faster."""
    return re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", words)


NAMES = any_case(
    "(?:password|passwd|passphrase|pass|pwd|psk|secret|token|api[_-]?key|(?:access|secret|private)[_-]?key|"
    "credentials?)"
)
# Names of secrets from their mark on: after it come letters that few other words have there.
PASSWORD_NAME = any_case("assword|asswd|assphrase|wd|sk") + (
    rf"|(?<![A-Za-z].){any_case('ass')}|(?<=[a-z]P)ass"
)
SECRET_NAME = any_case("redentials?|(?<=se.)ret")
TOKEN_NAME = any_case("(?<=to.)en")
KEY_NAME = any_case("ey") + f"(?:[_-](?:{any_case('data|base')}))?"
KEY_OF_SECRETS = any_case(
    "(?:api|access|secret|private|master|signing|encryption|account|shared|session|service|license|"
    "deploy|preshared|webhook|consumer|subscription|admin|bot|auth)[_-]?"
)
NO_KEY_OF_SECRETS = any_case(
    "(?<!public)(?<!primary)(?<!foreign)(?<!sort)(?<!cache)(?<!partition)(?<!idempotency)"
    "(?<!group)(?<!host)(?<!object)"
)
# The last three letters of all these names.
ENDS = any_case("ord|swd|ase|ass|pwd|psk|ret|ken|key|ial|als|uth")
_AFTER_NAME = r"\\{0,8}[\"'`\]]{0,2}(?:[?+!]|\s?\|\|)?\s{0,20}"
# A second argument (define, getenv, setdefault), and what counts if nothing is set.
_SECOND = r"(?:(?<=[\"']),[ \t]{0,20}|(?:\|\||\?\?)\s{0,3})(?=\\{0,8}[\"'])"
# The name of a type in quotes, "AWS::ApiGateway::ApiKey", says what a thing is, not what it holds.
NAME_OF_TYPE = r"[\"'](?:\w{1,60}::){1,4}\w{0,60}\Z"
# The block of a variable in Terraform.
_DEFAULT = r"\\{0,8}[\"']\s{0,3}\{[^{}]{0,300}?(?<=[\s{])default\s{0,20}"
# A name and its value as fields of one object, with a field or two between them.
_VALUE_OF_NAME = (
    r"\\{0,8}[\"']?(?:,\s{0,40}|\s{1,40})(?:- )?"
    r"(?:\\{0,8}[\"']?\w{1,20}\\{0,8}[\"']?[:=]\s?\\{0,8}[\"']?\w{1,20}\\{0,8}[\"']?,?\s{0,40}){0,2}"
    r"\\{0,8}[\"']?[vV]alue\\{0,8}[\"']?\s{0,3}"
)


# What may stand between "=" or ":" and a value: the rest of another sign, a type, an opening, a
# constructor.
_BEFORE_VALUE = (
    r"(?:(?<=:)=|(?<==)[=>]{1,2}|(?<=:)\s?&?(?:'static )?[A-Za-z]\w{2,15}(?: ?\| ?None)? ?=)?"
    r"\s{0,20}(?:(?:\(|[|>][+-]?|\\{1,2}n?)\s{1,40}|\()?"
    r"(?:(?:[A-Z]\w{1,30}(?:::|\.))?(?:from|new|of|Some|String|SecretStr|SecretString)\((?=\\{0,8}[\"'`]))?"
)
# An argument, an attribute.
_CODE = r"(?:[a-z_.]+|[a-z]+(?:[A-Z][a-z]+)+)\d{0,2}[,)]|[a-z_]\w*(?:\.[a-z_]\w*)+(?:\s|\Z)"
_BARE = r"[^\s\"'`,;&|<>(){}\[\]\\]"


def value(shortest: int) -> str:
    """A value: in quotes (and more of it after a break), to the end of a line, or bare."""
    return (
        r"(?:[rbfu]{0,2}\\{0,8}([\"'`])"
        rf"((?:(?!\1)[^\s\\]){{{shortest},2000}}+"
        r"(?:\\{0,8}\1\s{0,40}(?:[+.]\s{0,40})?\1(?:(?!\1)[^\s\\]){1,2000}+){0,20})"
        rf"|(?<=[A-Z]=)([^\s\"'`\\$;]{{{shortest},500}}+)(?=\s|\\|\Z)"
        rf"|(?!{_CODE})({_BARE}{{{shortest},500}}+)(?!\s?[(\[]))"
    )


def assigned(
    marks: str,
    second: str,
    name: str,
    shortest: int,
    is_real: Callable[[str], bool],
    *,
    head: str = "",
    width: int = 0,
    examples: tuple[str, ...],
    counterexamples: tuple[str, ...] = (),
) -> Rule:
    """A value given to a name, in whatever language: ``name = value``, ``"name": "value"``.

    ``name`` is what follows the mark of the name, ``second`` its first letter.
    """
    between = rf"(?:{_AFTER_NAME}|{_VALUE_OF_NAME}|{_DEFAULT})"
    return Rule(
        kind="secret",
        marks=marks,
        head=head,
        tail=rf"(?:{name})(?:{between}[=:]{_BEFORE_VALUE}|{_AFTER_NAME}{_SECOND}){value(shortest)}",
        near=rf"(?={second})(?=(?:{name})(?:{between}[=:]|{_AFTER_NAME}{_SECOND}))",
        width=width,
        never=NAME_OF_TYPE,
        is_real=is_real,
        examples=examples,
        counterexamples=counterexamples,
    )


def set_by_command(marks: str, name: str, before: str, *examples: str) -> Rule:
    """A variable that a command or a Dockerfile sets without a sign: ``ENV NAME value``."""
    name, before = any_case(name), any_case(before)
    return Rule(
        kind="secret",
        marks=marks,
        head=rf"(?<![A-Za-z0-9_])[A-Za-z]\w{{0,39}}_{before}",
        tail=rf"(?:{name})[ \t]{{1,3}}{value(8)}",
        near=rf"(?<=_{before}.)(?=(?:{name})[ \t])",
        context=r"(?i:(?<![\w-])(?:ENV|ARG|setx|set|configure\s+set|setenv)\s+)(?:-\w+\s+)*\Z",
        width=50,
        is_real=is_token,
        examples=examples,
    )


def defined(marks: str, name: str, before: str, *examples: str) -> Rule:
    """A text that is given to a name in C: ``#define NAME "value"``."""
    name, before = name.upper(), before.upper()
    return Rule(
        kind="secret",
        marks=marks,
        head=rf"(?<![A-Za-z0-9_])\w{{0,39}}_{before}",
        tail=rf"(?:{name})[ \t]{{1,20}}\\{{0,8}}\"([^\s\"'\\]{{6,500}})",
        near=rf"(?<=_{before}.)(?=(?:{name})[ \t]{{1,20}}[\\\"])",
        context=r"#\s{0,3}define\s+\Z",
        width=50,
        is_real=is_token,
        examples=examples,
    )


def token(
    kind: str, begins: str, tail: str, *examples: str, is_real: Callable[[str], bool] = is_anything
) -> list[Rule]:
    """A token that begins with one of these words, each ending in a mark."""
    rules = []
    for mark in dict.fromkeys(word[-1] for word in begins.split()):
        heads = tuple(word[:-1] for word in begins.split() if word[-1] == mark)
        widest = max(map(len, heads))
        rules.append(
            Rule(
                kind=kind,
                marks=mark,
                head="(?:" + "|".join(re.escape(head) + begun(len(head)) for head in heads) + ")",
                tail=DIGIT_SOON + tail,
                begins=heads,
                width=widest,
                is_real=is_real,
                examples=tuple(
                    text for text in examples if any(f"{head}{mark}" in text for head in heads)
                ),
            )
        )
    return rules


# Generated tokens have a digit among their first characters; words after a mark have none.
DIGIT_SOON = r"(?=[A-Za-z_\-.+/=%]{0,40}\d)"
URLSAFE = r"[A-Za-z0-9_\-]"
# An option that may give a secret: a letter, or a word for one.
_SAYS_SECRET = any_case("(?:pass|pwd|secret|token|key|user)")
OPTION = rf"(?<![\w\-].)(?=[upPUaw]|-[a-zA-Z\-]{{0,40}}?{_SAYS_SECRET}|[a-zA-Z]{{1,8}}[u ])"
# What follows the mark "p" in the rare rules: asked once for all of them.
RARE_AFTER_P = r"(?=assw(?:or)?d\s|lus\s|i[0-9a-f]{32})"
ADDRESS = r"(?=//[^\s/\"'<>\\]{0,350}@|//(?:hooks\.slack|(?:\w{1,10}\.)?discord))"
COMMAND = r"[^|;&\n]{0,150}(?<=\s)\Z"  # the rest of a command, up to one of its options
