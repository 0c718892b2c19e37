"""What went wrong with a model call, in a sentence, and whether another try may help.

Owns reading pydantic-ai's errors. Knows nothing of agents. Loads pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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

_TRANSIENT = (
    ModelRateLimitError,
    ModelUnavailableError,
    ModelServerError,
    ModelConnectionError,
    ModelRequestTimeout,
)
_TRANSPORTS = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "aiohttp"})
_MAX_CHARACTERS = 2_000
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


def describe_failure(error: Exception) -> Failure:
    """What to tell the user, and whether to try again."""
    match error:
        case BrokenOffError():
            return Failure(str(error), is_transient=True)
        case ModelHTTPError():
            message = f"{error.status_code} {_body_message(error.body) or error.message}"
            if isinstance(error, ModelContextWindowExceededError):
                # The words by which a session knows that it has to be compacted.
                message = f"context window exceeded: {message}"
            transient = _is_transient(error)
            if error.provider_retry_hint is False:
                transient = False
            return Failure(_cut(message), transient, error.retry_after)
        case ModelAPIError():
            return Failure(_cut(error.message), _is_transient(error), error.retry_after)
        case SessionTreeError():
            return Failure(str(error))
        case UnexpectedModelBehavior():
            # An answer that makes no sense, such as none at all; the next one may.
            refused = isinstance(error, ContentFilterError)
            return Failure(_cut(error.message), is_transient=not refused)
        case ConnectionError() | TimeoutError():
            return Failure(_cut(str(error) or type(error).__name__), is_transient=True)
        case _:
            text = str(error).partition(_KEY_HINT)[0]
            return Failure(_cut(text or type(error).__name__), _is_of_transport(error))


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
