"""The server: what it is started with, its routes, how a page is rendered, and how it ends. Knows no page's content."""

import contextlib
import hashlib
import json
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from samovar.errors import BadInput, SamovarError, UserError
from samovar.ui.catalogue import Catalogue, Watch
from samovar.ui.child import Readers
from samovar.ui.security import Guard, Secrets
from samovar.ui.showing import FILTERS, is_number, link, link_run

DEFAULT_PORT = 7266
_QUEUE_FILE = "queue.db"
MISSING_EXTRA = "the page needs more packages: pip install 'samovar[web]'"
_MAX_BODY_BYTES = 1 << 16
_PLOTS = re.compile(r'<div class="plots">.*?<!-- plots -->\n?', re.DOTALL)
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_UPLOT = {"uPlot.iife.js": "text/javascript", "uPlot.min.css": "text/css"}


@dataclass(frozen=True)
class Settings:
    """What a page is started with.

    Attributes:
        root: The folder of results.
        queue: The address of the queue; None if there is none.
        has_actions: Whether runs can be stopped, and jobs retried and cancelled.
        has_sql: Whether free SELECTs can be asked.
        hosts: Names of hosts by which the page may be asked, beside those of this machine.
        secrets: The token.
    """

    root: Path
    queue: str | None = None
    has_actions: bool = False
    has_sql: bool = False
    hosts: Sequence[str] = ()
    secrets: Secrets = field(default_factory=Secrets)


class Page:
    """One server: its settings, the catalogue, the processes that read, the templates.

    Args:
        settings: What it was started with.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.catalogue = Catalogue(settings.root)
        self.readers = Readers(settings.root)
        self.watch: Watch | None = None
        self._templates = Environment(
            loader=PackageLoader("samovar.ui"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= FILTERS
        self._templates.globals |= {"link": link, "link_run": link_run, "is_number": is_number, "settings": settings}

    def known_run(self, path: str) -> str:
        """A path below the folder at which there is a run. Every page of a run asks here first: no other path is read.

        Raises:
            HTTPException: There is none.
        """
        if self.catalogue.get(path) is None:
            where = "The folder is still being read." if not self.catalogue.is_complete else ""
            raise HTTPException(404, f"There is no result at {path or '.'}. {where}".rstrip())
        return path or "."

    def render(self, request: Request, template: str, title: str, status: int = 200, **content: Any) -> Response:
        """A page; or with `after`, only its content, if that has changed since that cursor."""
        version = self.catalogue.version
        main = self._templates.get_template(template).render(request=request, title=title, **content)
        seen = _PLOTS.sub("", main).encode("utf-8", "replace")  # curves have a cursor of their own
        cursor = f"{hashlib.sha256(seen).hexdigest()[:16]}-{version}"
        after = request.query_params.get("after")
        if after is not None and after.partition("-")[0] == cursor.partition("-")[0]:
            return Response(status_code=304, headers={"x-cursor": cursor})
        if after is None:
            main = self._templates.get_template("shell.html").render(
                main=Markup(main), cursor=cursor, title=title, request=request, root=str(self.settings.root)
            )
        data = main.encode("utf-8", "replace")  # a name on a disk may be no text
        return Response(data, status, {"x-cursor": cursor}, "text/html; charset=utf-8")

    def is_known(self, request: Request) -> bool:
        """Whether a request has the page as it is now, if nothing but the catalogue decides how it looks."""
        after = request.query_params.get("after")
        return after is not None and after.partition("-")[2] == str(self.catalogue.version)

    def explain(self, request: Request, error: Exception) -> Response:
        """A page about a mistake in the address, or a result that cannot be read."""
        if isinstance(error, HTTPException):
            status, text = error.status_code, error.detail
        else:
            status, text = (400 if isinstance(error, UserError) else 500), str(error)
        if request.query_params.get("after") is not None:
            return answer_json({"error": text}, status)
        return self.render(request, "error.html", "Not found" if status == 404 else "Error", status, text=text)


def answer_json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value, allow_nan=False), status, media_type="application/json")


def page_of(request: Request) -> Page:
    found: Page = request.app.state.page
    return found


def make_app(settings: Settings) -> Starlette:
    """The application, with the processes that scan and read; they end with it."""
    from samovar.ui.routes import ROUTES

    page = Page(settings)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        page.watch = Watch(page.catalogue)
        try:
            yield
        finally:
            page.watch.close()
            page.readers.close()

    handlers: Mapping[Any, Callable[[Request, Exception], Response]] = {
        HTTPException: page.explain,
        SamovarError: page.explain,
    }
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(Guard, secrets=settings.secrets, hosts=settings.hosts)],
        exception_handlers=handlers,
        lifespan=lifespan,
        max_body_size=_MAX_BODY_BYTES,
    )
    app.state.page = page
    return app


def static_file(request: Request) -> Response:
    """Our own files, and uPlot's from where its package is installed."""
    name = request.path_params["name"]
    if name in _UPLOT:
        data, kind = (_uplot_folder() / name).read_bytes(), _UPLOT[name]
    else:
        folder = files("samovar.ui").joinpath("static")
        known = {each.name for each in folder.iterdir()}
        if name not in known:
            raise HTTPException(404, "There is no such file.")
        data, kind = folder.joinpath(name).read_bytes(), _TYPES[Path(name).suffix]
    etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"etag": etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=kind)


def _uplot_folder() -> Path:
    """Found without importing the package, which would load all of IPython."""
    spec = find_spec("uplot")
    if spec is None or spec.origin is None:
        raise BadInput(MISSING_EXTRA)
    return Path(spec.origin).parent / "static"


def serve(
    folder: Path | str,
    *,
    port: int | None = None,
    queue: str | None = None,
    actions: bool = False,
    sql: bool = False,
    hosts: Sequence[str] = (),
    announce: Callable[[str], object] = print,
) -> None:
    """Serve a page of a folder on this machine until ctrl-C.

    Args:
        folder: A folder of results.
        port: On 127.0.0.1; None: 7266, or another that is free.
        queue: The address of the queue to show; None: `queue.db` in the folder or here, if there is one.
        actions: Whether runs can be stopped, and jobs retried and cancelled.
        sql: Whether free SELECTs can be asked.
        hosts: Names of hosts by which the page may be asked, beside those of this machine.
        announce: Called with the address, token included, when the page can be opened.

    Raises:
        BadInput: There is no such folder, or the port is taken.

    Example:
        ```python
        serve("models", announce=webbrowser.open)  # until ctrl-C
        ```
    """
    root = Path(folder)
    if not root.is_dir():
        raise BadInput(f"{folder} is not a folder. Name a folder of results")
    settings = Settings(root.resolve(), _find_queue(root) if queue is None else queue, actions, sql, hosts=tuple(hosts))
    import uvicorn

    listener = listen(port)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/?token={settings.secrets.token}"

    class Announcing(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """End in order at the first signal. Uvicorn's own would send it again afterwards, as if it failed."""
            numbers = (signal.SIGINT, signal.SIGTERM)
            old = {number: signal.signal(number, self.handle_exit) for number in numbers}
            try:
                yield
            finally:
                for number, handler in old.items():
                    signal.signal(number, handler)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            announce(address)

    config = uvicorn.Config(
        make_app(settings),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=20,
        limit_concurrency=200,
    )
    Announcing(config).run(sockets=[listener])


def _find_queue(folder: Path) -> str | None:
    found = next((path for path in (folder / _QUEUE_FILE, Path(_QUEUE_FILE)) if path.is_file()), None)
    return None if found is None else f"sqlite:///{found.resolve()}"


def listen(port: int | None) -> socket.socket:
    """Listen on this machine only."""
    if port is not None and not 0 <= port <= 65535:
        raise BadInput(f"--port {port}: a port is a number from 0 to 65535")
    wanted = [port] if port is not None else [DEFAULT_PORT, 0]
    for number in wanted:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", number))
        except OSError as error:
            listener.close()
            if number == wanted[-1]:
                raise BadInput(f"--port {number}: {error.strerror}. Choose another port") from error
        else:
            return listener
    raise AssertionError("no port was tried")
