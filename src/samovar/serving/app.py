"""The endpoint's paths: scores, signature, metrics, health. Knows no process and no signals.

POST /score          rows as JSON or as an Arrow stream
GET  /signature      what a row must have, and what comes back
GET  /metrics        Prometheus
GET  /v2/health/live, /v2/health/ready, /v2/models/<name>, /v2/models/<name>/ready    Open Inference Protocol
"""

import hmac
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from samovar.errors import Conflict, SamovarError, UserError
from samovar.scoring.signature import Signature
from samovar.serving.joining import Answer, Joiner
from samovar.serving.metrics import Metrics
from samovar.serving.models import Models
from samovar.serving.requests import ARROW, JSON, PREDICTION, read_rows, write_arrow, write_error, write_json

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_DATATYPES = {"float32": "FP32", "float64": "FP64", "int64": "INT64", "int32": "INT32", "bool": "BOOL"}


@dataclass
class Endpoint:
    """One model behind HTTP.

    Args:
        models: Gives the model.
        name: Of the model, in its paths.
        token: What requests must bring as `Authorization: Bearer …`. None: nothing.
        max_body_bytes: Larger requests are refused.
    """

    models: Models
    name: str
    token: str | None = None
    max_body_bytes: int = 32 << 20
    metrics: Metrics = field(default_factory=Metrics)
    is_draining: bool = False
    """Whether the server is about to end: it answers, and asks for no more."""
    num_running: int = 0
    last_request: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.joiner = Joiner(self.models.use, on_batch=self.metrics.count_batch)

    def app(self) -> Starlette:
        """The ASGI application."""
        model = "/v2/models/{name}"
        return Starlette(
            routes=[
                Route("/score", self._guarded(self.score), methods=["POST"]),
                Route("/signature", self._guarded(self.signature)),
                Route("/metrics", self._guarded(self.show_metrics)),
                Route("/v2/health/live", self.live),
                Route("/v2/health/ready", self.ready),
                Route(model, self._guarded(self.describe)),
                Route(f"{model}/ready", self.ready),
            ],
            exception_handlers={404: _not_found, 405: _not_allowed},
        )

    # Scores

    async def score(self, request: Request) -> Response:
        """Answer one request for scores."""
        started = time.perf_counter()
        self.num_running += 1
        num_rows = 0
        try:
            found = await self._answer(request)
            num_rows = found.num_rows
            response = self._respond(request, found)
        except ClientDisconnect:
            response = Response(status_code=499)
        except _TooLarge as error:
            response = _error(413, str(error))
        except Conflict as error:
            response = _error(503, str(error))
        except UserError as error:
            response = _error(400, str(error))
        except SamovarError as error:
            response = _error(500, str(error))
        except Exception as error:
            response = _error(500, f"the server failed: {error}")
        finally:
            self.num_running -= 1
            self.last_request = time.monotonic()
        self.metrics.count_request(response.status_code, num_rows, time.perf_counter() - started)
        return self._closing(response)

    async def _answer(self, request: Request) -> Answer:
        kind = request.headers.get("content-type", JSON)
        return await self.joiner.score(read_rows(await self._body(request), kind))

    async def _body(self, request: Request) -> bytes:
        pieces, size = [], 0
        async for piece in request.stream():
            size += len(piece)
            if size > self.max_body_bytes:
                raise _TooLarge(f"the request has more than {self.max_body_bytes:,} bytes. Send fewer rows at a time")
            pieces.append(piece)
        return b"".join(pieces)

    def _respond(self, request: Request, found: Answer) -> Response:
        facts = {"model_hour": found.served.hour, "version": found.served.version}
        if ARROW in request.headers.get("accept", ""):
            return Response(write_arrow(found.predictions, facts), media_type=ARROW)
        return Response(write_json(found.predictions, facts), media_type=JSON)

    # About the model and the server

    async def signature(self, request: Request) -> Response:
        """What a row must have."""
        served = self.models.current
        found = served.model.signature
        facts = {"model": self.name, "model_hour": served.hour, "columns": found.raw_names, **found.to_json()}
        return self._closing(_json(facts))

    async def show_metrics(self, request: Request) -> Response:
        """What Prometheus reads."""
        served = self.models.current
        gauges = {
            "model_age_seconds": time.time() - served.loaded_at,
            "model_version": served.version,
            "waiting_requests": self.joiner.num_waiting,
        }
        return self._closing(Response(self.metrics.to_text(gauges, self.models.misses()), media_type=_TEXT))

    async def live(self, request: Request) -> Response:
        """Whether the process runs."""
        return _json({"live": True})

    async def ready(self, request: Request) -> Response:
        """Whether to send requests here."""
        if request.path_params.get("name", self.name) != self.name:
            return _error(404, f"no model {request.path_params['name']!r}. The model here is {self.name!r}")
        is_ready = not self.is_draining
        return self._closing(_json({"ready": is_ready}, 200 if is_ready else 503))

    async def describe(self, request: Request) -> Response:
        """The model as the Open Inference Protocol describes it."""
        if request.path_params["name"] != self.name:
            return _error(404, f"no model {request.path_params['name']!r}. The model here is {self.name!r}")
        served = self.models.current
        return self._closing(
            _json(
                {
                    "name": self.name,
                    "versions": [str(served.version)],
                    "platform": "samovar",
                    **_tensors(served.model.signature),
                }
            )
        )

    # Access and end

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(request: Request) -> Response:
            if self.token is not None:
                given = request.headers.get("authorization", "")
                if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                    return self._closing(_error(401, "the request needs the header `Authorization: Bearer TOKEN`"))
            return await handler(request)

        return guarded

    def _closing(self, response: Response) -> Response:
        if self.is_draining:
            response.headers["connection"] = "close"
        return response


class _TooLarge(Exception):
    pass


def _json(found: Any, status: int = 200) -> Response:
    return Response(json.dumps(found).encode(), status, media_type=JSON)


def _error(status: int, message: str) -> Response:
    return Response(write_error(message), status, media_type=JSON)


async def _not_found(request: Request, error: Exception) -> Response:
    return _error(404, f"no such path: {request.url.path}. Scores are at POST /score")


async def _not_allowed(request: Request, error: Exception) -> Response:
    return _error(405, f"{request.url.path} does not take {request.method}")


def _tensors(signature: Signature) -> dict[str, Any]:
    inputs = [
        {"name": name, "datatype": "BYTES", "shape": [-1]} for name in signature.raw_names
    ]  # raw values, of the type that the signature says
    outputs = [
        {
            "name": output.name or PREDICTION,
            "datatype": _DATATYPES.get(output.dtype, "BYTES"),
            "shape": [-1, *output.shape],
        }
        for output in signature.outputs
    ]
    return {"inputs": inputs, "outputs": outputs}
