"""The Dockerfile of the how-to cannot be built everywhere, so its instructions are checked one by one."""

import json
import re

from tests.cli.commands import COMMANDS
from tests.docs.pages import DOCS, find_blocks

INSTRUCTIONS = {"FROM", "ARG", "RUN", "COPY", "USER", "ENV", "EXPOSE", "CMD", "WORKDIR"}


def read_instructions() -> list[tuple[str, str]]:
    (block,) = (block for block in find_blocks(DOCS / "how_to/container.md") if block.title == "Dockerfile")
    lines = block.text.replace("\\\n", " ").splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    return [(name, rest) for name, rest in pairs]


def test_the_instructions_are_those_of_a_small_image() -> None:
    found = read_instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS
    assert found[0][0] == "FROM"
    assert re.fullmatch(r"python:3\.\d+-slim", found[0][1])
    assert all("--no-cache-dir" in rest for name, rest in found if name == "RUN" and "pip install" in rest)
    installs = [rest for name, rest in found if name == "RUN" and "pip install" in rest]
    assert "torch" in installs[0]
    assert "[web]" in installs[1]
    users = [number for number, (name, _) in enumerate(found) if name == "USER"]
    assert users
    assert all(name != "RUN" for name, _ in found[users[-1] :])


def test_the_command_gets_signals_and_knows_its_options() -> None:
    (rest,) = (rest for name, rest in read_instructions() if name == "CMD")
    words = json.loads(rest)  # the form without a shell, which would swallow SIGTERM
    assert words[:2] == ["samovar", "serve"]
    (bundle,) = (rest.split()[1] for name, rest in read_instructions() if name == "COPY" and rest.startswith("bundle"))
    assert words[2] == bundle
    options = {option for parameter in COMMANDS["serve"].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options
    (port,) = (rest for name, rest in read_instructions() if name == "EXPOSE")
    assert words[words.index("--port") + 1] == port
