"""Every error that Samovar raises on purpose, in one tree. Knows nothing of the code that raises them.

    SamovarError                            exit code 1: something failed
    ├── UserError                           exit code 2: user error
    │   ├── ConfigError    (ValueError)     a config, override or recipe that cannot be used
    │   │   └── UnknownKey (LookupError)    a key that no schema has; suggests the nearest one
    │   ├── UnknownColumn  (LookupError)    a column that the table does not have
    │   ├── BadInput       (ValueError)     data or arguments of the wrong kind
    │   ├── BadPath        (ValueError)     a path that leaves its store, is a file where a directory must be, …
    │   ├── NotAResult     (ValueError)     a directory or file that Samovar did not make
    │   ├── Conflict       (ValueError)     the directory belongs to another config or script
    │   └── LeaseHeld                       another process works in the directory
    ├── StoreError                          a disk that is full, read-only, broken or missing
    │   ├── NotFound       (LookupError)    no such file in the store
    │   ├── AlreadyExists                   the file exists and must not be replaced
    │   └── LeaseLost                       another process took over the directory: nothing more may be committed
    ├── CorruptData        (ValueError)     bytes differ from those that were written
    ├── QueueUnavailable                    the queue's database cannot be reached, or is not a queue
    ├── Diverged           (ArithmeticError)  a loss or a weight is not finite
    └── Stopped                             exit code 75: stopped on request, can be resumed

A message says what is wrong and what was found, with the place, and then what to do if that is not obvious:
``batch_size must be at least 1, got 0``. A password in an address that was typed wrong is never part of it.
"""

import re
from typing import Any, ClassVar

_SECRETS = tuple(
    (re.compile(pattern, re.IGNORECASE), shown)
    for pattern, shown in (
        (r"((?:\b[a-z][\w+.-]*:/|//)[^\s:@]*):\S*@", r"\1:***@"),  # postgresql://user:secret@host, or a path of it
        (r"(//[^\s:@/]+):(?!\d*(?:[/?\s'\",;.):]|$)|\*\*\*)[^\s/?]*", r"\1:***"),  # the same without a host
        (r"\b(\w*(?:password|passwd|pwd))=[^\s&;]+", r"\1=***"),
    )
)


def hide_passwords(text: str) -> str:
    """A text in which every password of an address, such as `postgresql://user:secret@host/name`, is `***`."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


class SamovarError(Exception):
    """The base of all errors here. `exit_code` is what the command line returns for it.

    Example:
        >>> try:
        ...     table = samovar.open_table("clicks")
        ... except samovar.errors.SamovarError as error:
        ...     sys.exit(error.exit_code)
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, *args: Any) -> None:
        super().__init__(*(hide_passwords(each) if isinstance(each, str) else each for each in args))


class UserError(SamovarError):
    """A mistake in what the user gave: a config, an argument, a path."""

    exit_code = 2


class ConfigError(UserError, ValueError):
    """A config, override or recipe that cannot be used."""


class UnknownKey(ConfigError, LookupError):
    """A key that no schema has."""


class UnknownColumn(UserError, LookupError):
    """A column that the table does not have."""


class BadInput(UserError, ValueError):
    """Data or arguments of the wrong kind."""


class BadPath(UserError, ValueError):
    """A path that would leave its store, that some disks cannot hold, or that is a file where a directory must be."""


class NotAResult(UserError, ValueError):
    """A directory or file that Samovar did not make."""


class Conflict(UserError, ValueError):
    """The directory belongs to another config or script."""


class LeaseHeld(UserError):
    """Another process works in the directory."""


class StoreError(SamovarError):
    """A disk that is full, read-only, broken or missing."""


class NotFound(StoreError, LookupError):
    """No such file in the store."""


class AlreadyExists(StoreError):
    """The file exists and must not be replaced."""


class LeaseLost(StoreError):
    """Another process took over the directory: nothing more may be committed."""


class CorruptData(SamovarError, ValueError):
    """Bytes differ from those that were written."""


class QueueUnavailable(SamovarError):
    """The queue's database cannot be reached, or is not a queue."""


class Diverged(SamovarError, ArithmeticError):
    """A loss or a weight is not finite."""


class Stopped(SamovarError):
    """Stopped on request; can be resumed."""

    exit_code = 75
