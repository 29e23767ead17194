"""Bytes as people read them."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def readable(size_bytes: int) -> str:
    size, unit = float(size_bytes), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
