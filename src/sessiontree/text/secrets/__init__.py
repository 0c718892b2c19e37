"""Secrets in text: the forms they have, and finding them. For exports and ``doctor --secrets``."""

from __future__ import annotations

from sessiontree.text.secrets.rules import RULES
from sessiontree.text.secrets.search import Secret, find_secrets, find_secrets_in_pieces
from sessiontree.text.secrets.values import is_key, is_password, is_placeholder

__all__ = [
    "RULES",
    "Secret",
    "find_secrets",
    "find_secrets_in_pieces",
    "is_key",
    "is_password",
    "is_placeholder",
]
