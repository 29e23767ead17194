"""Who may ask, and what a browser may do with an answer: the token, the Host header, response headers, forms. Knows no
page.

    samovar ui ──▶ http://127.0.0.1:7266/?token=…   answered by a page that sets a cookie and leads to the clean address
    every other request                             needs the cookie, else 401; another Host is refused before that
    POST                                            also needs our own Origin, and the token that our forms contain
"""

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from urllib.parse import parse_qs, parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_TOKEN = "token"
_FORM_TOKEN = "form_token"
MAX_FORM_BYTES = 1 << 16
_METHODS = ("GET", "HEAD", "POST")


@dataclass(frozen=True)
class Secrets:
    """What only the user who started the page knows, and those whom they gave the address.

    Attributes:
        token: Part of the address that is printed.
    """

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie_name(self) -> str:
        """Cookies ignore ports: two pages on one machine must not overwrite each other's."""
        return f"samovar_{self._derive('name')[:12]}"

    @property
    def cookie(self) -> str:
        """The cookie that the token is exchanged for."""
        return self._derive("cookie")

    @property
    def form_token(self) -> str:
        """What every form of ours sends back."""
        return self._derive("form")

    def _derive(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


class Guard:
    """ASGI middleware that lets through only what may be answered.

    Args:
        app: What answers.
        secrets: The token and what follows from it.
        hosts: Names of hosts that are allowed beside those of this machine.
    """

    def __init__(self, app: ASGIApp, secrets: Secrets, hosts: Sequence[str] = ()) -> None:
        self._app = app
        self._secrets = secrets
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._judge(scope)
            await (answer or self._app)(scope, receive, _with_headers(send))
        else:  # a websocket, of which there are none
            await send({"type": "websocket.close", "code": 1008})

    def _judge(self, scope: Scope) -> Response | None:
        """An answer instead of the page's, or None."""
        headers = Headers(scope=scope)
        if not is_allowed_host(headers.getlist("host"), self._hosts):
            return PlainTextResponse("This name of a host is not allowed. Start with --allow-host NAME\n", 400)
        if scope["method"] not in _METHODS:
            return PlainTextResponse("Method not allowed\n", 405)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get(_TOKEN)
        if given is not None and scope["method"] == "GET":
            if not hmac.compare_digest(given.encode(), self._secrets.token.encode()):
                return _refuse()
            return self._exchange(scope["path"], [(name, value) for name, value in query if name != _TOKEN])
        found = cookie_parser(headers.get("cookie", "")).get(self._secrets.cookie_name, "")
        if not hmac.compare_digest(found.encode(), self._secrets.cookie.encode()):
            return _refuse()
        if scope["method"] == "POST" and not is_own_origin(headers):
            return PlainTextResponse("This form does not come from the page itself\n", 403)
        return None

    def _exchange(self, path: str, query: list[tuple[str, str]]) -> Response:
        """Set the cookie, and lead to the same address without the token. Not by a redirect: if a link of another site
        led here, a browser would not send the cookie with it."""
        clean = escape(_quoted("/" + path.lstrip("/") + (f"?{urlencode(query)}" if query else "")))
        answer = HTMLResponse(
            '<!doctype html><meta charset="utf-8"><title>Samovar</title>'
            '<link rel="icon" href="/static/icon.svg">'
            f'<meta http-equiv="refresh" content="0; url={clean}"><a href="{clean}">Open</a>'
        )
        answer.set_cookie(self._secrets.cookie_name, self._secrets.cookie, httponly=True, samesite="strict", path="/")
        return answer


def _quoted(path: str) -> str:
    return quote(path, safe="/?&=%:+,~@!$*().-_")


def _refuse() -> Response:
    return PlainTextResponse("Open the address that `samovar ui` printed: it contains the token.\n", 401)


def is_allowed_host(hosts: Sequence[str], others: frozenset[str] = frozenset()) -> bool:
    """Whether a request's Host is this machine, with any port: tunnels change it. A page of another site whose name
    leads here must not read ours.

    Example:
        >>> is_allowed_host(["127.0.0.1:7266"]), is_allowed_host(["evil.example"])
        (True, False)
    """
    if len(hosts) != 1:
        return False
    try:
        parts = urlsplit(f"//{hosts[0]}")
        name, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if name is None or parts.netloc != hosts[0] or "@" in hosts[0] or parts.path or parts.query or parts.fragment:
        return False
    if name == "localhost" or name in others:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_own_origin(headers: Headers) -> bool:
    """Whether a form was sent from a page of ours: its Origin is the Host that we were asked by."""
    origin = headers.get("origin")
    return (
        origin is not None
        and urlsplit(origin).scheme in ("http", "https")
        and (urlsplit(origin).netloc == headers.get("host"))
    )


async def read_form(request: Request, secrets: Secrets) -> Mapping[str, str] | None:
    """The fields of a form of ours; None if it is not one."""
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_FORM_BYTES:
            return None
    fields = {name: values[-1] for name, values in parse_qs(data.decode("utf-8", "replace")).items()}
    given = fields.get(_FORM_TOKEN, "")
    return fields if hmac.compare_digest(given.encode(), secrets.form_token.encode()) else None


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
