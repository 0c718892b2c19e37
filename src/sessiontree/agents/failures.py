"""Explain a failed model call in a sentence, and tell whether another try may help.

Owns reading pydantic-ai's errors. Knows nothing of agents. Loads pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelServerError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
)

from sessiontree.errors import SessionTreeError
from sessiontree.runtime.masking import KeyMask

_TRANSIENT = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelServerError,
    ModelConnectionError,
    ModelRequestTimeout,
)
_TRANSPORTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp"})
_MAX_CHARACTERS = 2_000
_MOST_CAUSES = 10
_KEY_HINT = " To try Pydantic AI without an API key"


class ModelCallError(SessionTreeError):
    """A model call failed for good; the message goes into the session as ``errorMessage``."""


class BrokenOffError(SessionTreeError):
    """A stream of an answer ended before the answer did."""

    def __init__(self) -> None:
        super().__init__("The connection broke off in the middle of the answer")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call."""

    message: str
    is_transient: bool = False
    retry_after_s: float | None = None


def describe_failure(error: Exception, mask: KeyMask | None = None) -> Failure:
    """Word a failure for the user, and say whether to try again.

    Gateways repeat the key they were given: ``mask`` takes it out before the message is cut, or
    half of a key could be left.
    """
    ours = _find_ours(error)
    if ours is not None:
        return Failure(str(ours), is_transient=isinstance(ours, BrokenOffError))
    failure = _describe(error)
    message = mask.text(failure.message) if mask is not None else failure.message
    return replace(failure, message=_cut(message))


def _find_ours(error: BaseException) -> SessionTreeError | None:
    """The error that we raised, though a library may have wrapped it in its own."""
    at: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if at is None or isinstance(at, SessionTreeError):
            return at
        at = at.__cause__ or at.__context__
    return None


def _describe(error: Exception) -> Failure:
    match error:
        case ModelHTTPError():
            message = f"{error.status_code} {_body_message(error.body) or error.message}"
            if isinstance(error, ModelContextWindowExceededError):
                # The words by which a session knows that it has to be compacted.
                message = f"context window exceeded: {message}"
            transient = _is_transient(error)
            if error.provider_retry_hint is False:
                transient = False
            return Failure(message, transient, error.retry_after)
        case ModelAPIError():
            return Failure(error.message, _is_transient(error), error.retry_after)
        case UnexpectedModelBehavior():
            # An answer that makes no sense, such as none at all; the next one may.
            refused = isinstance(error, ContentFilterError)
            return Failure(error.message, is_transient=not refused)
        case ConnectionError() | TimeoutError():
            return Failure(str(error) or type(error).__name__, is_transient=True)
        case _:
            text = str(error).partition(_KEY_HINT)[0]
            return Failure(text or type(error).__name__, _is_of_transport(error))


def _is_transient(error: ModelAPIError) -> bool:
    return isinstance(error, _TRANSIENT) and not isinstance(error, ModelQuotaExceededError)


def _is_of_transport(error: Exception) -> bool:
    """Whether an HTTP library raised it: not every provider's errors are translated."""
    return type(error).__module__.partition(".")[0] in _TRANSPORTS


def _body_message(body: object) -> str | None:
    """The sentence inside the JSON that providers wrap their errors in."""
    while isinstance(body, Mapping):
        inner = body.get("error")
        if isinstance(inner, Mapping | str):
            body = inner
            continue
        message = body.get("message") or body.get("detail")
        return message if isinstance(message, str) else None
    return body if isinstance(body, str) and body else None


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_CHARACTERS else text[:_MAX_CHARACTERS] + "…"
