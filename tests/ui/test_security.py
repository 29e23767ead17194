"""Closed to everybody without the token, to other sites, and to paths that leave a result; and it changes nothing."""

import hashlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from starlette.datastructures import Headers
from tests.ui.serving import Served, serving

from samovar.errors import BadInput
from samovar.queue import open_queue
from samovar.ui.app import listen
from samovar.ui.routes import ROUTES
from samovar.ui.security import HEADERS, is_allowed_host, is_own_origin

MODEL = "models/lr0.02_seed1"
PAGES = (
    "/",
    "/runs",
    f"/curves?run={MODEL}",
    f"/curves/data?run={MODEL}",
    f"/diff?run={MODEL}&run=models/lr0.2_seed1",
    "/queue",
    "/sql",
    "/static/page.js",
    "/static/uPlot.iife.js",
    *(f"/{page}/{MODEL}" for page in ("run", "chain", "evaluation", "predictions", "embeddings")),
    "/table/tables/clicks",
    f"/file/{MODEL}/script.py",
)


def test_every_route_is_in_the_list_of_pages() -> None:
    roots = {urlsplit(page).path.split("/")[1] for page in PAGES}
    assert {route.path.split("/")[1] for route in ROUTES} == roots | {"act"}


@pytest.mark.parametrize("page", [*PAGES, "/act", "/nothing", "/static/../app.py"])
def test_nothing_is_answered_without_the_token(served: Served, page: str) -> None:
    for cookie in ("", "x=y", served.cookie[:-1], f"{served.secrets.cookie_name}={served.token}"):
        for method in ("GET", "POST", "HEAD"):
            answer = served.ask(page, {"Cookie": cookie}, method=method, with_cookie=False)
            assert answer.status == 401
            assert "models" not in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_answered_with_headers_that_bind_the_browser(served: Served, page: str) -> None:
    answer = served.ask(page)
    assert answer.status == 200, answer.text
    for name, value in HEADERS.items():
        assert answer.headers[name] == value or (name == "cache-control" and "/static/" in page)
    assert "set-cookie" not in answer.headers


def test_the_token_becomes_a_cookie_and_leaves_the_address(served: Served) -> None:
    answer = served.ask(f"/runs?where=lr%3D0.02&token={served.token}", with_cookie=False)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{served.cookie};")
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert 'url=/runs?where=lr%3D0.02"' in answer.text
    assert served.token not in answer.text
    assert served.ask("/?token=wrong", with_cookie=False).status == 401
    assert served.ask("/?token=wrong").status == 401


def test_the_way_after_the_token_stays_on_the_page(served: Served) -> None:
    answer = served.ask(f"//evil.example/%22%3E%3Cscript%3E?token={served.token}", with_cookie=False)
    assert 'url=/evil.example/%22%3E%3Cscript%3E"' in answer.text
    assert "<script" not in answer.text


HOSTS = {
    "127.0.0.1": True,
    "127.0.0.1:7266": True,
    "127.9.9.9:1": True,
    "localhost": True,
    "LOCALHOST:9999": True,
    "[::1]:80": True,
    "proxy.example": True,
    "Proxy.Example:8443": True,
    "": False,
    "evil.example": False,
    "127.0.0.1.evil.example": False,
    "localhost.evil.example": False,
    "evil.example:127.0.0.1": False,
    "localhost@evil.example": False,
    "evil.example#localhost": False,
    "evil.example/localhost": False,
    "0.0.0.0": False,
    "192.168.0.1": False,
    "[::]": False,
    "2130706433": False,
    "localhost:x": False,
    "localhost, evil.example": False,
    "proxy.example.evil": False,
}


@pytest.mark.parametrize(("host", "is_allowed"), HOSTS.items())
def test_only_names_of_this_machine_and_allowed_ones_are_hosts(host: str, is_allowed: bool) -> None:
    assert is_allowed_host([host], frozenset({"proxy.example"})) is is_allowed


@pytest.mark.parametrize(("host", "is_allowed"), HOSTS.items())
def test_the_server_refuses_other_hosts(served: Served, host: str, is_allowed: bool) -> None:
    expected = 200 if is_allowed and "proxy" not in host.lower() else 400
    assert served.ask("/runs", {"Host": host}).status == expected


def test_two_hosts_or_none_are_refused() -> None:
    assert not is_allowed_host([])
    assert not is_allowed_host(["localhost", "localhost"])


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [
        ("http://127.0.0.1:7266", True),
        ("https://127.0.0.1:7266", True),
        ("http://127.0.0.1:7267", False),
        ("http://evil.example", False),
        ("null", False),
        ("file://127.0.0.1:7266", False),
        (None, False),
    ],
)
def test_a_form_must_come_from_the_page_itself(origin: str | None, is_own: bool) -> None:
    given = {"host": "127.0.0.1:7266", **({} if origin is None else {"origin": origin})}
    assert is_own_origin(Headers(given)) is is_own


TRAVERSALS = [
    "..", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fetc%2fpasswd", "%252e%252e/etc/passwd",
    "....//etc/passwd", "/etc/passwd", "%2fetc%2fpasswd", "..\\..\\etc\\passwd", "%5c..%5cetc", "C:/windows",
    "file:///etc/passwd", "models/../../secret.txt", f"{MODEL}/../../../secret.txt", f"{MODEL}/.samovar/attributes",
    f"{MODEL}/.SAMOVAR/attributes", f"{MODEL}/link.txt", f"{MODEL}/folder/secret.txt", f"{MODEL}/%00", f"{MODEL}/a%0ab",
    f"{MODEL}/script.py/..", f"{MODEL}//script.py", f"{MODEL}/./script.py", "outside/model_config.json", "%ff%fe",
    f"{MODEL}/\u2025/secret.txt", "models", "rows.csv", "queue.db",
]  # fmt: skip


@pytest.fixture(scope="module")
def with_links(everything: Path, served: Served) -> Iterator[Path]:
    """Links out of the folder: in a result, and in place of one."""
    secret = everything.parent / "secret.txt"
    secret.write_text("SECRET")
    links = [everything / MODEL / "link.txt", everything / MODEL / "folder", everything / "outside"]
    links[0].symlink_to(secret)
    links[1].symlink_to(everything.parent)
    links[2].symlink_to(everything / MODEL)
    yield everything
    for link in links:
        link.unlink()


@pytest.mark.parametrize("path", TRAVERSALS)
def test_no_path_leaves_a_result(served: Served, with_links: Path, path: str) -> None:
    for page in ("file", "run", "chain", "evaluation", "predictions", "embeddings", "table"):
        target = f"/{page}/{quote(path, safe='/%:')}"
        queries = {"file": ("", "?raw=1", "?start=9"), "predictions": ("?folder=../../..",)}
        for query in queries.get(page, ("",)):
            answer = served.ask(target + query)
            assert answer.status in (400, 404, 500), target
            assert "SECRET" not in answer.text
            assert "root:" not in answer.text
    for page in ("curves", "curves/data", "diff"):
        assert served.ask(f"/{page}?run={quote(path)}&run={MODEL}").status in (400, 404)


def test_a_result_that_became_a_link_is_not_followed(tmp_path: Path, everything: Path) -> None:
    """Between a scan and a request, a stranger may replace a folder."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "run").symlink_to(everything / MODEL)
    text = "from samovar.ui.answers import read_run\nread_run('run')"
    done = subprocess.run([sys.executable, "-c", text], cwd=root, capture_output=True, text=True, check=False)
    assert "BadInput: run leads out of the folder of this page" in done.stderr


@pytest.mark.parametrize("name", ["page.html", "picture.svg"])
def test_files_of_results_are_never_pages(served: Served, name: str) -> None:
    raw = served.ask(f"/file/stages/total/files/{name}?raw=1")
    assert raw.headers["content-type"] == "application/octet-stream"
    assert raw.headers["content-disposition"].startswith("attachment")
    assert b"<script" in raw.data
    shown = served.ask(f"/file/stages/total/files/{name}")
    assert shown.headers["content-type"].startswith("text/html")
    assert "&lt;script" in shown.text
    assert "hacked" not in re.sub(r"<pre.*?</pre>", "", shown.text, flags=re.DOTALL)


def test_a_script_is_plain_text(served: Served, everything: Path) -> None:
    answer = served.ask(f"/file/{MODEL}/script.py?raw=1")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.data == (everything / MODEL / "script.py").read_bytes()


def test_a_message_of_a_run_is_text(served: Served) -> None:
    for page in ("/", "/runs", "/run/models/failed"):
        text = served.ask(page).text
        assert "<b>now</b>" not in text
    assert "&lt;b&gt;now&lt;/b&gt;" in served.ask("/").text


def checksum(folder: Path) -> str:
    found = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(place, name)
            data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found.update(f"{path.relative_to(folder)} {os.lstat(path).st_mtime_ns}\n".encode() + data)
    return found.hexdigest()


def test_looking_at_every_page_changes_nothing(served: Served, everything: Path) -> None:
    before = checksum(everything)
    seen: set[tuple[str, tuple[str, ...]]] = set()
    left = ["/"]
    while left:
        target = left.pop()
        key = (urlsplit(target).path, tuple(sorted(parse_qs(urlsplit(target).query))))
        if key in seen or len(seen) > 250:
            continue
        seen.add(key)
        answer = served.ask(target)
        assert answer.status in (200, 400), f"{target}: {answer.text}"
        assert answer.status == 200 or "damaged" in target or "evaluation" in target or "predictions" in target, target
        if answer.headers["content-type"].startswith("text/html"):
            for found in re.findall(r'(?:href|src|formaction|data-url)="([^"]*)"', answer.text):
                address = unescape(found)
                assert address.startswith(("/", "#")), f"{target} links to {address}"
                left.append(address.partition("#")[0] or "/")
    assert len(seen) > 60
    assert checksum(everything) == before


def test_a_page_that_has_not_changed_is_not_sent_again(served: Served) -> None:
    for page in ("/", "/runs", f"/run/{MODEL}", "/queue", f"/curves?run={MODEL}"):
        cursor = served.ask(page).headers["x-cursor"]
        mark = "&" if "?" in page else "?"
        assert served.ask(f"{page}{mark}after={cursor}").status == 304
        assert served.ask(f"{page}{mark}after={cursor.partition('-')[0]}-999").status == 304
        again = served.ask(f"{page}{mark}after=other-999")
        assert (again.status, again.headers["x-cursor"]) == (200, cursor)
        assert "<html" not in again.text
    cursor = served.ask(f"/curves/data?run={MODEL}").text.partition('"cursor": "')[2].partition('"')[0]
    assert served.ask(f"/curves/data?run={MODEL}&after={cursor}").status == 304


def test_forms_are_refused_without_actions(served: Served) -> None:
    own = {"Origin": served.base}
    body = f"action=cancel&job=1&form_token={served.secrets.form_token}".encode()
    assert served.ask("/act", own, method="POST", body=body).status == 403
    assert served.ask("/act").status == 405
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert served.ask("/runs", method=method).status == 405


def test_actions_need_our_own_form(everything: Path) -> None:
    url = f"sqlite:///{everything / 'queue.db'}"

    def states() -> list[str]:
        return [job.state for job in open_queue(url).jobs()]

    with serving(everything, "--actions") as served:
        token = served.secrets.form_token
        own = {"Origin": served.base}
        for headers, body in (
            ({}, f"action=cancel&job=1&form_token={token}"),
            ({"Origin": "http://evil.example"}, f"action=cancel&job=1&form_token={token}"),
            ({"Origin": "null"}, f"action=cancel&job=1&form_token={token}"),
            (own, "action=cancel&job=1"),
            (own, "action=cancel&job=1&form_token=wrong"),
            (own, f"action=cancel&job=1&form_token={token}&more={'x' * (1 << 17)}"),
        ):
            assert served.ask("/act", headers, method="POST", body=body.encode()).status in (403, 413)
        assert states() == ["waiting", "cancelled", "waiting"]
        for action, job, after in (("cancel", 1, "cancelled"), ("retry", 1, "waiting")):
            fields = f"action={action}&job={job}&back=//evil.example&form_token={token}"
            answer = served.ask("/act", own, method="POST", body=fields.encode())
            assert (answer.status, answer.headers["location"]) == (303, "/")
            assert states()[0] == after
        assert served.ask("/act", own, method="POST", body=f"action=x&form_token={token}".encode()).status == 400


def test_it_listens_on_this_machine_only(served: Served) -> None:
    addresses = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((str(address), served.port), timeout=5)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_cannot_be_is_refused(port: int) -> None:
    with pytest.raises(BadInput, match=f"--port {port}: a port is a number from 0 to 65535"):
        listen(port)
