"""Every error that Samovar raises on purpose, in one tree. Knows nothing of the rooms that raise them.

    SamovarError                      exit code 1: something failed
    ├── UserError                     exit code 2: the user can mend it
    │   ├── ConfigError   (ValueError)   a config, override or recipe that cannot be used
    │   │   └── UnknownKey (LookupError) a key that nothing knows; names the nearest one
    │   ├── UnknownColumn (LookupError)  a table has no such column
    │   ├── BadInput      (ValueError)   data or arguments of the wrong kind
    │   ├── BadPath       (ValueError)   a path that would leave its store, or that no disk can hold
    │   ├── NotAResult       (ValueError)   a directory or file that Samovar did not make
    │   ├── Conflict      (ValueError)   the directory already belongs to another config or script
    │   └── LeaseHeld                    somebody else works in this directory now
    ├── StoreError                    a disk that is full, forbidden, broken or gone
    │   ├── NotFound      (LookupError)  no such file in the store
    │   ├── AlreadyExists                create-if-absent found a file
    │   └── LeaseLost                    another process took the directory over: nothing more may be committed
    ├── CorruptData           (ValueError)   bytes that are not the bytes that were written
    ├── QueueUnavailable                     the queue's database cannot be reached, or is none
    ├── Diverged          (ArithmeticError) a loss or a weight that is no finite number any more
    └── Stopped                       exit code 75: stopped on request, can be resumed

A message has four parts: where, what was found, what was expected, what to do.
"""

from typing import ClassVar


class SamovarError(Exception):
    """The root; `exit_code` is what the command line returns for it."""

    exit_code: ClassVar[int] = 1


class UserError(SamovarError):
    exit_code = 2


class ConfigError(UserError, ValueError):
    pass


class UnknownKey(ConfigError, LookupError):
    pass


class UnknownColumn(UserError, LookupError):
    pass


class BadInput(UserError, ValueError):
    pass


class BadPath(UserError, ValueError):
    pass


class NotAResult(UserError, ValueError):
    pass


class Conflict(UserError, ValueError):
    pass


class LeaseHeld(UserError):
    pass


class StoreError(SamovarError):
    pass


class NotFound(StoreError, LookupError):
    pass


class AlreadyExists(StoreError):
    pass


class LeaseLost(StoreError):
    pass


class CorruptData(SamovarError, ValueError):
    pass


class QueueUnavailable(SamovarError):
    pass


class Diverged(SamovarError, ArithmeticError):
    pass


class Stopped(SamovarError):
    exit_code = 75
