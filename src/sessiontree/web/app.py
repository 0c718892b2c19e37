"""The viewer as an ASGI application: its routes and their pages.

Pages are made in threads, because sessions are read synchronously. Whatever goes wrong with a
session is one line on a page of ours, never a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from sessiontree.clock import now_ms
from sessiontree.errors import SessionNotFoundError, SessionTreeError
from sessiontree.export.html import render_html
from sessiontree.export.html.document import title_of
from sessiontree.export.html.markup import text
from sessiontree.serving.guard import App, is_same
from sessiontree.serving.sessions import ServedSessions
from sessiontree.text.words import to_local
from sessiontree.web import changes, frame, listing, picture
from sessiontree.web.access import Access, Visitor
from sessiontree.web.comparison import draw_comparison
from sessiontree.web.gate import Gate, read_body
from sessiontree.web.listing import Filters
from sessiontree.web.reading import MOST_ARTICLES, Readings
from sessiontree.web.session_page import describe_news, draw_session
from sessiontree.web.trash_page import draw_trash
from sessiontree.web.usage_page import UsageReader, Wish, draw_usage

_PATIENCE_S = 1.0
"""Seconds that the first page waits for the first listing."""
_FOREVER = "private, max-age=31536000, immutable"
_KINDS = {"css": "text/css", "js": "text/javascript"}


def make_app(served: ServedSessions, access: Access) -> App:
    """The viewer, behind its gate."""
    viewer = Viewer(served)

    @asynccontextmanager
    async def life(_: Starlette) -> Any:
        yield
        await run_in_threadpool(viewer.close)

    handlers: Mapping[Any, Any] = {SessionTreeError: _tell, HTTPException: _tell, Exception: _tell}
    app = Starlette(routes=viewer.routes(), lifespan=life, exception_handlers=handlers)
    return Gate(app, access)


class Viewer:
    """The pages."""

    def __init__(self, served: ServedSessions) -> None:
        self._served = served
        self._readings = Readings(served)
        self._usage = UsageReader(served)

    def routes(self) -> list[Route]:
        """Each address, and what answers it."""
        return [
            Route("/", self.list),
            Route("/rows", self.rows),
            Route("/s/{key}", self.session),
            Route("/s/{key}/entries", self.entries),
            Route("/s/{key}/find", self.find),
            Route("/s/{key}/news", self.news),
            Route("/s/{key}/export.html", self.export),
            Route("/s/{key}/tree", self.tree),
            Route("/s/{key}/compare", self.compare),
            Route("/usage", self.usage),
            Route("/s/{key}/rename", _posted(self.rename), methods=["POST"]),
            Route("/s/{key}/label", _posted(self.label), methods=["POST"]),
            Route("/s/{key}/trash", _posted(self.trash), methods=["POST"]),
            Route("/trash", self.trash_page),
            Route("/trash/{key}/restore", _posted(self.restore), methods=["POST"]),
            Route("/assets/{digest}/{name}", _asset),
        ]

    def close(self) -> None:
        """Close all sessions, and what runs in the background."""
        self._readings.close()
        self._served.close()

    # -- pages -----------------------------------------------------------------------------

    def list(self, request: Request) -> Response:
        """All sessions, or those that the filters leave."""
        if not self._served.is_ready(_PATIENCE_S):
            return HTMLResponse(_frame(request).waiting_page(*self._served.progress))
        filters = Filters.read(request.query_params)
        now = _now()
        found = listing.find(self._served, filters, _start(request))
        rows = self._served.list()
        return HTMLResponse(listing.draw_page(_frame(request), found, filters, rows, now))

    def rows(self, request: Request) -> Response:
        """A part of the list, for the page's script."""
        filters = Filters.read(request.query_params)
        now = _now()
        is_idle = request.query_params.get("idle") == "1"  # the reader has stopped typing
        found = listing.find(self._served, filters, _start(request), with_meant=is_idle)
        told = listing.tell(found, filters, len(self._served.list()))
        rows = listing.draw_rows(_frame(request), found, filters, now)
        return JSONResponse(
            {
                "rows": rows,
                "told": told,
                "isNarrow": filters.is_narrow,
                "isIndexing": found.indexing is not None,
            }
        )

    def session(self, request: Request) -> Response:
        """A session."""
        with self._readings.use(_key(request)) as reading:
            command = self._served.resume_command(reading.row)
            return HTMLResponse(draw_session(_frame(request), reading, command))

    def tree(self, request: Request) -> Response:
        """A session's tree as a picture."""
        with self._readings.use(_key(request)) as reading:
            return HTMLResponse(picture.draw_page(_frame(request), reading))

    def compare(self, request: Request) -> Response:
        """Two branches of a session side by side."""
        with self._readings.use(_key(request)) as reading:
            return HTMLResponse(draw_comparison(_frame(request), reading, request.query_params))

    def usage(self, request: Request) -> Response:
        """Tokens and money of all sessions."""
        table, wish = self._usage.read(), Wish.read(request.query_params)
        return HTMLResponse(draw_usage(_frame(request), table, wish, to_local(_now()).date()))

    def entries(self, request: Request) -> Response:
        """Articles."""
        numbers = _numbers(request.query_params.get("n", ""))
        with self._readings.use(_key(request)) as reading:
            return HTMLResponse("".join(reading.articles(numbers)))

    def find(self, request: Request) -> Response:
        """The entries of a session that have some words."""
        with self._readings.use(_key(request)) as reading:
            return JSONResponse(reading.find(request.query_params.get("q", "")[:1_000]))

    def news(self, request: Request) -> Response:
        """The news for a page that has been open for a while."""
        count = request.query_params.get("count", "")
        with self._readings.use(_key(request)) as reading:
            has = int(count) if count.isdecimal() and len(count) < 10 else 0
            news = reading.news(has, request.query_params.get("mark", ""))
            if news is None:
                return Response(status_code=204)
            return JSONResponse(describe_news(news, title_of(reading.view)))

    def export(self, request: Request) -> Response:
        """A session as one file."""
        row = self._served.get(_key(request))
        view = self._served.read(row)
        redactor = None
        if request.query_params.get("redact") == "1":
            from sessiontree.export.redact import Redactor  # it compiles many patterns

            redactor = Redactor()

        def pieces() -> Iterator[str]:
            with view:
                yield from render_html(view, redactor=redactor)

        name = "".join(c for c in row.id if c.isascii() and (c.isalnum() or c in "-_"))[:80]
        attached = f'attachment; filename="session-{name or "unnamed"}.html"'
        return StreamingResponse(
            pieces(), media_type="text/html", headers={"content-disposition": attached}
        )

    def trash_page(self, request: Request) -> Response:
        """The page of removed sessions."""
        restored = request.query_params.get("restored", "")
        is_key = restored.isalnum() and restored.isascii()
        found = changes.list_trash(self._served)
        page = draw_trash(_frame(request), found, restored if is_key else "", _now())
        return HTMLResponse(page)

    # -- changes ---------------------------------------------------------------------------

    def rename(self, request: Request, given: Mapping[str, str]) -> object:
        """Name a session."""
        key = _key(request)
        changes.rename(self._served, self._served.get(key), given.get("name", ""))
        with self._readings.use(key, is_fresh=True) as reading:
            return {"title": title_of(reading.view)}

    def label(self, request: Request, given: Mapping[str, str]) -> object:
        """Label an entry."""
        key, number = _key(request), given.get("entry", "")
        with self._readings.use(key) as reading:
            entries = reading.view.tree.entries
            if not number.isdecimal() or len(number) > 9 or int(number) >= len(entries):
                raise HTTPException(400, "There is no such message.")
            entry_id = entries[int(number)].id
        changes.label(self._served, self._served.get(key), entry_id, given.get("label", ""))
        return {}

    def trash(self, request: Request, given: Mapping[str, str]) -> object:
        """Remove a session."""
        del given
        key = _key(request)
        row = self._served.get(key)
        self._readings.forget(key)
        return {"trashed": changes.remove(self._served, row), "title": listing.title_of(row)}

    def restore(self, request: Request, given: Mapping[str, str]) -> object:
        """Bring a session back."""
        key = changes.restore(self._served, _key(request))
        return f"/trash?restored={key}" if given.get("back") else {"key": key}


# -- requests and answers ----------------------------------------------------------------------


def _frame(request: Request) -> frame.Frame:
    visitor: Visitor = request.scope["visitor"]
    return frame.Frame(request.scope["root_path"], visitor)


def _key(request: Request) -> str:
    return str(request.path_params["key"])


def _start(request: Request) -> int:
    given = request.query_params.get("start", "")
    return int(given) if given.isdecimal() and len(given) < 10 else 0


def _now() -> datetime:
    return datetime.fromtimestamp(now_ms() / 1000, UTC)


def _numbers(given: str) -> list[int]:
    """Read the numbers in a text such as ``1-3,7``, at most as many as one answer may have."""
    found: list[int] = []
    for part in given[:10_000].split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or len(first) > 9 or len(last) > 9:
            continue
        end = int(last) if last.isdecimal() else int(first)
        found += range(int(first), min(end + 1, int(first) + MOST_ARTICLES))
        if len(found) >= MOST_ARTICLES:
            break
    return found[:MOST_ARTICLES]


def _posted(change: Callable[[Request, Mapping[str, str]], object]) -> Callable[..., Any]:
    """An endpoint that changes something, if the form has this visitor's token.

    Scripts get JSON; a browser is sent on to the page that ``change`` names.
    """

    async def endpoint(request: Request) -> Response:
        body = parse_qs((await read_body(request.receive)).decode("utf-8", "replace"),
                        keep_blank_values=True)  # fmt: skip
        given = {name: values[0] for name, values in body.items()}
        visitor: Visitor = request.scope["visitor"]
        if not is_same(given.get("token"), visitor.form_token):
            raise HTTPException(403, "This form is too old. Load the page again.")
        told = await run_in_threadpool(change, request, given)
        if isinstance(told, str):
            return RedirectResponse(f"{request.scope['root_path']}{told}", 303)
        return JSONResponse(told)

    return endpoint


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in frame.ASSETS:
        raise HTTPException(404, "There is no such file.")
    kind = _KINDS[name.rpartition(".")[2]]
    return Response(frame.read_asset(name), media_type=kind, headers={"cache-control": _FOREVER})


async def _tell(request: Request, error: Exception) -> Response:
    """One line about what went wrong: a page for people, plain text for scripts."""
    status, told = _in_words(error)
    if "text/html" not in request.headers.get("accept", "") or request.method == "POST":
        return Response(f"{told}\n", status, media_type="text/plain")
    root = request.scope["root_path"]
    page = frame.message_page(
        root, "Not found" if status == 404 else "That did not work",
        f'<p>{text(told)}</p><p><a href="{root}/">All sessions</a></p>',
    )  # fmt: skip
    return HTMLResponse(page, status)


def _in_words(error: Exception) -> tuple[int, str]:
    match error:
        case HTTPException():
            return error.status_code, error.detail if error.status_code != 404 else (
                "There is no such page."
            )
        case SessionNotFoundError():
            return 404, "There is no such session any more."
        case changes.NotOursError():
            return 403, str(error)
        case SessionTreeError():
            return 409, " ".join(str(error).split())
        case _:
            return 500, "Something went wrong here. The log of the command says more."
