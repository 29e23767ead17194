"""What the errors of obstore mean: which may pass, and one sentence for each of the others. No secret gets into one."""

import re
from typing import Any

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>|\"code\": ?\"(\w+)\"")
_DETAIL = re.compile(r"<Message>([^<]{1,200})</Message>")
_MISSING_BUCKETS = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")


class Failure:
    """One failed request, from the exception that obstore raised."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self._text, _, self._debug = str(error).partition("\n\nDebug source:")
        status, code = _STATUS.search(self._text), _CODE.search(self._text)
        self.status = int(status[1]) if status else None
        self.code = next(filter(None, code.groups()), "") if code else ""

    @property
    def is_bucket_missing(self) -> bool:
        """Whether there is no bucket of that name."""
        is_list = self.status == 404 and "list request" in self._text  # an empty bucket lists no objects
        return is_list or any(name in self._text for name in _MISSING_BUCKETS)

    @property
    def is_missing(self) -> bool:
        """Whether there is no object of that name."""
        return isinstance(self._error, FileNotFoundError) and not self.is_bucket_missing

    @property
    def is_empty_range(self) -> bool:
        """Whether the object ends before the range."""
        return self.status == 416

    @property
    def is_conflict(self) -> bool:
        """Whether a condition did not hold, or the server could not tell."""
        names = ("AlreadyExistsError", "PreconditionError", "NotModifiedError")
        return type(self._error).__name__ in names or self.status in (409, 412)

    @property
    def is_refused(self) -> bool:
        """Whether the credentials may not do this."""
        names = ("PermissionDeniedError", "UnauthenticatedError")
        return type(self._error).__name__ in names or self.status in (401, 403)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        if self.is_conflict or isinstance(self._error, FileNotFoundError) or self._is_about_credentials:
            return False
        if self.status is not None:
            return self.status in (408, 425, 429) or (self.status >= 500 and self.status != 501)
        return self._is_about_the_line

    @property
    def _is_about_credentials(self) -> bool:
        return "redential" in self._text or "/latest/api/token" in self._text or "metadata/identity" in self._text

    @property
    def _is_about_the_line(self) -> bool:
        marks = ("error sending request", "error decoding response", "request or response body", "operation timed out")
        return any(mark in self._text for mark in marks) or "Timeout" in type(self._error).__name__

    def explain(self, endpoint: str) -> str:
        """What is wrong, and what to do.

        Args:
            endpoint: How the server is set, for the advice.
        """
        if self.is_bucket_missing:
            return "the bucket does not exist. Create it, or correct the URL"
        if "BadScheme" in self._debug:
            return f"the server's address is plain http. Set {endpoint.split('_')[0]}_ALLOW_HTTP=true if that is meant"
        if "Received redirect" in self._text:
            return "the bucket is in another region. Set AWS_REGION to the bucket's region"
        if self._is_about_credentials and not self.is_refused:
            return (
                "no credentials were found in the environment, in files or on this machine's role. See "
                "docs/how_to/object_stores.md for where they are looked for"
            )
        if self.is_refused:
            return f"the server refuses access{self._quoted}. Check the credentials and what they may do in this bucket"
        if self.status is not None:
            when = "Try again later" if self.may_pass else "Check the address of the server and the name"
            return f"the server answered {self.status}{self._quoted}. {when}"
        if "dns error" in self._debug or "ResolveError" in self._debug:
            return f"the name of the server is unknown. Check {endpoint} and the network"
        if "Connect" in self._debug:
            return f"the server cannot be reached. Check {endpoint} and the network"
        if "TimedOut" in self._debug or "Timeout" in self._debug:
            return "the server does not answer. Check the network, and start again"
        if self._is_about_the_line:
            return "the connection broke again and again. Check the network, and start again"
        return f"{_without_query(self._text)}. Fix it and start again"

    @property
    def _quoted(self) -> str:
        detail = _DETAIL.search(self._text)
        parts = [self.code, detail[1] if detail else ""]
        said = ": ".join(filter(None, parts))
        return f" ({said})" if said else ""


def _without_query(text: str) -> str:
    """One line, without what may be a signature."""
    return re.sub(r"\?\S*", "", " ".join(text.split()))


def is_obstores(error: Any) -> bool:
    """Whether obstore raised this error."""
    from obstore.exceptions import BaseError

    return isinstance(error, BaseError | FileNotFoundError)
