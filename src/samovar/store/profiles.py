"""Settings that obstore does not find itself: the profiles in `~/.aws`, and how to speak to the server. Everything else
(keys in the environment, web identities, roles of containers and machines, Google's and Azure's files) it looks up.
"""

import os
from configparser import ConfigParser, Error
from pathlib import Path
from typing import Any

from samovar.errors import BadInput

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_INDIRECT = {"role_arn", "sso_session", "sso_start_url", "credential_process"}
_OWN_SOURCES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)


_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE", "abfs": "AZURE", "abfss": "AZURE"}
_FLAGS = ("allow_http", "allow_invalid_certificates")
_TEXTS = ("proxy_url", "proxy_ca_certificate", "proxy_excludes", "root_certificate")


def find_line_options(url: str) -> dict[str, Any]:
    """How to speak to the server, from variables such as AWS_ALLOW_HTTP."""
    prefix = _VARIABLES[url.partition(":")[0]]
    found = {option: os.environ.get(f"{prefix}_{option.upper()}", "") for option in (*_FLAGS, *_TEXTS)}
    flags = {option: found[option].lower() in ("1", "true", "yes") for option in _FLAGS}
    return {option: value for option, value in (found | flags).items() if value}


def find_credentials(url: str) -> dict[str, Any]:
    """What obstore needs to be told to open a URL, beyond what it finds itself."""
    if not url.startswith("s3:"):
        return {}
    name = os.environ.get("AWS_PROFILE") or "default"
    settings = _read("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}")
    secrets = _read("AWS_SHARED_CREDENTIALS_FILE", "credentials", name)
    found: dict[str, Any] = {}
    if "region" in settings and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys():
        found["region"] = settings["region"]
    if any(os.environ.get(source) for source in _OWN_SOURCES):
        return found
    profile = settings | secrets
    if "aws_access_key_id" in profile:
        return found | {option: profile[key] for key, option in _KEYS.items() if key in profile}
    if {
        "role_arn",
        "sso_session",
        "sso_start_url",
        "credential_process",
    } & profile.keys() or "AWS_PROFILE" in os.environ:
        return found | {"credential_provider": _ask_boto3(name)}
    return found


def _read(variable: str, file: str, section: str) -> dict[str, str]:
    path = Path(os.environ.get(variable) or Path.home() / ".aws" / file)
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (Error, OSError, UnicodeDecodeError):
        raise BadInput(f"{path} is not a file of AWS profiles. Correct it, or set AWS_ACCESS_KEY_ID") from None
    return dict(parser[section]) if section in parser else {}


def _ask_boto3(profile: str) -> Any:
    """A profile that has no keys, but says how to get some, which is work for AWS's own package."""
    try:
        from boto3.session import Session
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise BadInput(
            f"the AWS profile {profile!r} has no keys in a file. To get them as it says, type: pip install boto3. Or "
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from None
    return Boto3CredentialProvider(Session(profile_name=profile))
