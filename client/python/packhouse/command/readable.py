"""Texts and numbers as people read them."""

from __future__ import annotations

_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def readable(text: str) -> str:
    """As a terminal shows it and nothing more: control characters, but the line feed and the tab, and
    bytes that are no UTF-8 become \\xNN.
    """
    return "".join(c if c in "\n\t" or _is_shown(c) else _escaped(c) for c in text)


def _is_shown(character: str) -> bool:
    code = ord(character)
    is_control = code < 0x20 or 0x7F <= code < 0xA0
    return not is_control and not 0xD800 <= code < 0xE000 and not _turns_text(code)


def _turns_text(code: int) -> bool:
    """Whether it changes the direction of what follows, or ends a line."""
    return code in (0x2028, 0x2029) or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def grouped(number: int) -> str:
    """In groups of three digits: 32901 gives "32,901"."""
    return f"{number:,}"


def percent(ratio: float, decimals: int = 2) -> str:
    """Without the sign: 0.98776 gives "98.78"."""
    return f"{100 * ratio:.{decimals}f}"


def small_percent(ratio: float) -> str:
    """With two significant digits and the sign, for shares that may be tiny: 0.000015 gives
    "0.0015 %".
    """
    value = 100 * ratio
    if abs(value) >= 10:
        return f"{value:.0f} %"
    if abs(value) >= 1e-4:
        return f"{value:.2g} %"
    return f"{value:.6f} %" if value else "0 %"


def bytes_text(number: int) -> str:
    """`16.0 GiB`; whole below 1 KiB."""
    if number < 1024:
        return f"{number} B"
    value = number / 1024
    for unit in _BINARY_UNITS:
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} EiB"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 graph`, `2,000 graphs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
