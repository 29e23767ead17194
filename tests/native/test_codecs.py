"""The libraries of codecs: the order in which they are tried, and what is said about those that cannot be used."""

import ctypes
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from samovar import _native
from samovar.errors import BadInput
from samovar.native import codecs, require_codec

CODECS = ["zstd", "lz4"]
SONAMES = {"zstd": "libzstd.so.1", "lz4": "liblz4.so.1"}
NUMBERS = {"zstd": 1, "lz4": 2}

# A library with all functions of zstd, which compresses everything to nothing.
BROKEN_ZSTD = """
#include <stddef.h>
unsigned ZSTD_versionNumber(void) { return VERSION; }
void* ZSTD_createDCtx(void) { return 0; }
size_t ZSTD_freeDCtx(void* c) { return 0; }
size_t ZSTD_decompressDCtx(void* c, void* out, size_t capacity, const void* in, size_t size) { return 0; }
void* ZSTD_createCCtx(void) { return 0; }
size_t ZSTD_freeCCtx(void* c) { return 0; }
size_t ZSTD_compressCCtx(void* c, void* out, size_t capacity, const void* in, size_t size, int level) { return 0; }
size_t ZSTD_compressBound(size_t size) { return size; }
unsigned ZSTD_isError(size_t code) { return 0; }
const char* ZSTD_getErrorName(size_t code) { return ""; }
"""


def run(program: str) -> str:
    """In a process of its own, because a process loads a codec once."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder: Path, version: int) -> Path:
    library = folder / "libbroken.so"
    (folder / "broken.c").write_text(BROKEN_ZSTD)
    command = ["cc", "-shared", "-fPIC", f"-DVERSION={version}", "-o", str(library), str(folder / "broken.c")]
    subprocess.run(command, check=True)
    return library


def is_installed(path: str) -> bool:
    """A machine may have no library of the system."""
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("codec", CODECS)
def test_the_library_of_the_wheel_is_tried_before_that_of_the_system(codec: str) -> None:
    *of_wheel, last = codecs.find_libraries(codec)
    assert last == SONAMES[codec]
    assert of_wheel
    assert all("site-packages" in path for path in of_wheel)
    library = codecs.load_library(codec)
    assert library.path == of_wheel[0]
    assert library.version.startswith("1.")
    assert require_codec(codec) == NUMBERS[codec]


def test_no_compression_needs_no_library() -> None:
    assert require_codec("none") == 0


@pytest.mark.parametrize("codec", CODECS)
def test_without_the_wheel_the_library_of_the_system_is_tried(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "find_spec", lambda name: None)
    assert list(codecs.find_libraries(codec)) == [SONAMES[codec]]


def test_a_wheel_without_the_expected_file_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> Any:
        return importlib.util.find_spec("json")

    monkeypatch.setattr(codecs, "find_spec", find_spec)
    assert list(codecs.find_libraries("zstd")) == ["libzstd.so.1"]


@pytest.mark.parametrize("codec", CODECS)
def test_without_any_library_the_error_says_what_was_tried_and_what_to_install(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_codec(number: int, path: str) -> str:
        raise RuntimeError(f"{path}: cannot open shared object file")

    monkeypatch.setattr(_native, "load_codec", load_codec)
    package = {"zstd": "zstandard", "lz4": "lz4"}[codec]
    message = (
        rf"^codec '{codec}': no usable library\. Install the package '{package}' from PyPI, or {SONAMES[codec]}\. "
        rf"Tried /none/a\.so: cannot open shared object file; {SONAMES[codec]}: cannot open shared object file$"
    )
    with pytest.raises(BadInput, match=message):
        codecs._load_first(codec, ["/none/a.so", SONAMES[codec]])


def test_a_library_that_fails_is_passed_over_and_the_next_one_used(tmp_path: Path) -> None:
    """A missing file, one that is no library, one of something else, and one that fails its self-check."""
    (tmp_path / "garbage.so").write_bytes(b"not a library")
    broken = build(tmp_path, 10507)
    output = run(f"""
        from samovar import _native
        from samovar.native import codecs
        problems = []
        for path in ["/none/libzstd.so", {str(tmp_path / "garbage.so")!r}, _native.__file__, {str(broken)!r}]:
            try:
                _native.load_codec(1, path)
            except RuntimeError as error:
                problems.append(str(error))
        print(*problems, sep="\\n")
        paths = [{str(broken)!r}, *codecs.find_libraries("zstd")]
        print(codecs._load_first("zstd", paths).path == paths[1])
    """)
    missing, garbage, other, checked, is_used = output.splitlines()
    assert missing.startswith("/none/libzstd.so: cannot open shared object file")
    assert garbage.endswith(("file too short", "invalid ELF header"))
    assert other == "has no function ZSTD_versionNumber"
    assert checked == "self-check failed: it misreads a known vector"
    assert is_used == "True"


def test_a_library_of_an_unknown_version_is_rejected(tmp_path: Path) -> None:
    library = build(tmp_path, 10301)
    output = run(f"""
        from samovar import _native
        try:
            _native.load_codec(1, {str(library)!r})
        except RuntimeError as error:
            print(error)
    """)
    assert output == "version 1.3.1 is not supported, only 1.4.0 to 1.x\n"


@pytest.mark.parametrize("codec", CODECS)
def test_whichever_library_wrote_a_cell_any_reads_it(codec: str) -> None:
    """Compressed bytes may depend on the version, their meaning does not."""
    program = """
        import numpy as np
        from samovar import _native
        from samovar.native import codecs
        codecs._load_first({codec!r}, [{path!r}])
        items = np.arange(20000, dtype=np.float32) % 977
        cell = _native.encode_dense(items, {number}, 5)
        given = bytes.fromhex({given!r}) or cell
        places = np.array([[0, len(given), items.nbytes]], np.uint64)
        column = np.array([[1, 1, 0, 0]], np.uint32)
        decoder = _native.MinibatchDecoder(1 << 20)
        decoded = decoder.decode(given, places, np.array([len(items)], np.uint64), column, False, False)
        assert decoded.floats.tolist() == items.tolist()
        print(cell.hex())
    """
    paths = [path for path in codecs.find_libraries(codec) if is_installed(path)]
    assert paths
    given = ""
    for path in paths:
        given = run(program.format(codec=codec, path=path, number=NUMBERS[codec], given=given)).strip()
        assert given
