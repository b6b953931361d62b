"""The text of a file and the bytes it came from: decoding that can be undone, byte for byte, or is refused."""

import codecs
import re
from dataclasses import dataclass

from gadget_drone.clip import quoted
from gadget_drone.errors import ToolError

BOM = "\ufeff"

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LEGACY = "cp1252"
_UTF8_SEQUENCE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_MAX_LEGACY_RUN = 2
"""Western words have one accented letter, rarely two, in a row; Cyrillic or Japanese text has many."""
_NOT_WESTERN = re.compile(
    rb"[\xc2\xc3\x81-\x83\x86-\x90\x9d\x98\x9b\xa6\xac\xad\xaf\xb2\xb3\xb8\xb9\xbe\xd0\xde\xf0\xfe\xff]"
)
"""Not in Windows-1252, or rare there and frequent in other encodings: 0x82 and 0x83 begin the kana of Shift-JIS, 0xC2
and 0xC3 most of UTF-8's accented letters."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


@dataclass(frozen=True)
class Text:
    content: str
    r"""Without the byte order mark. Lines end with \n or \r\n, any number of both."""
    encoding: str = "utf-8"
    mark: bytes = b""
    """The byte order mark in front."""
    lone_returns: bool = False
    r"""Lines end with \r in the file, as on old Macs, and with \n in `content`."""

    def encoded(self, content: str, path: str) -> bytes:
        """`content` as the bytes of this file. Raises `ToolError` for a character that its encoding lacks."""
        if self.lone_returns:
            content = content.replace("\r\n", "\n").replace("\n", "\r")
        try:
            return self.mark + content.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = quoted(error.object[error.start])
            raise ToolError(f"{quoted(path)} is {self.name} text, which cannot hold {character}.") from error

    @property
    def name(self) -> str:
        """The encoding, as people write it."""
        names = {_LEGACY: "Windows-1252", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16", "utf-8": "UTF-8"}
        return names[self.encoding]


def decoded(data: bytes, path: str) -> Text:
    """The text that `data` is. Raises `ToolError` for what is binary, or of an encoding that cannot be told."""
    text = _decoded(data)
    if "\0" in text.content if text is not None else b"\0" in data:
        raise ToolError(f"{quoted(path)} is a binary file.")
    if text is None:
        raise ToolError(f"{quoted(path)} is not UTF-8 text, and its encoding cannot be told: change it with the shell.")
    return text


def _decoded(data: bytes) -> Text | None:
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    try:
        content = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        if mark or not _is_western(data):
            return None
        content, encoding = data.decode(_LEGACY), _LEGACY
    if "\r" in content and "\n" not in content:
        return Text(content.replace("\r", "\n"), encoding, mark, lone_returns=True)
    return Text(content, encoding, mark)


def _is_western(data: bytes) -> bool:
    """Whether `data`, which is not UTF-8, is surely Windows-1252 or its subset Latin-1."""
    if _CONTROL.search(data) or _NOT_WESTERN.search(data) or _UTF8_SEQUENCE.search(data):
        return False
    return all(len(run[0]) <= _MAX_LEGACY_RUN for run in _HIGH_RUN.finditer(data))
