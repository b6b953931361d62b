"""Characters that make a text look like another one: they hide, turn the direction, or look like Latin letters.

Whoever approves a command must see what runs. Clients show such a character as a mark with its number. The page has
the same tables in `ide/src/disguise.ts`; a test compares both.
"""

import re
from collections.abc import Sequence

Ranges = Sequence[tuple[int, int]]

HIDDEN: Ranges = (
    (0x0000, 0x0008), (0x000B, 0x001F), (0x007F, 0x009F), (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C),
    (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F),
    (0x2800, 0x2800), (0x3164, 0x3164), (0xD800, 0xDFFF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB), (0x13430, 0x1345F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Control characters but tab and line feed, and what Unicode calls default ignorable or bidirectional control: nothing
of them is seen. Blank letters (Hangul fillers, the empty Braille pattern) too."""
SHAPELESS: Ranges = (
    (0x00A0, 0x00A0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F), (0xE000, 0xF8FF),
    (0xFFFC, 0xFFFC), (0xF0000, 0x10FFFF),
)  # fmt: skip
"""Blanks that a shell takes for a part of a word, and what has the shape that a font gives it (private use)."""
BESIDE: Ranges = (
    (0x02BA, 0x02BA), (0x2010, 0x2011), (0x2033, 0x2033), (0x2212, 0x2212), (0x3000, 0x3000), (0xFF02, 0xFF02),
)  # fmt: skip
"""What looks like a hyphen, a quote or a blank. Marked beside ASCII alone: they are at home in other scripts."""
EMOJI: Ranges = (
    (0x00A9, 0x00A9), (0x00AE, 0x00AE), (0x203C, 0x203C), (0x2049, 0x2049), (0x2122, 0x2122), (0x2139, 0x2139),
    (0x2190, 0x21FF), (0x2300, 0x23FF), (0x24C2, 0x24C2), (0x25A0, 0x27BF), (0x2900, 0x297F), (0x2B00, 0x2BFF),
    (0x3030, 0x3030), (0x303D, 0x303D), (0x3297, 0x3297), (0x3299, 0x3299), (0x1F000, 0x1FAFF),
)  # fmt: skip
"""What a variation selector may follow, and a joiner may join."""
JOINED: Ranges = ((0x0600, 0x06FF), (0x0750, 0x077F), (0x08A0, 0x08FF), (0x0900, 0x0DFF), (0x1780, 0x17FF))
"""Letters of the scripts whose spelling needs joiners: Arabic (Persian), those of India, Khmer."""
LOOKALIKES = (
    "АВЕКМНОРСТУХЅІЈԌԚԜаеорсухѕіјһԁԛԝӏүґЬѴѵ"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοιανρυϲϳ"  # Greek
    "ՕՍօսոցհզԼ"  # Armenian
    "ᎪᎬᎢᎥᎷᏂᏃᏌᏚᏞᏟᏢᏴ"  # Cherokee
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"  # Lisu
    "ⲂⲎⲒⲓⲔⲘⲚⲞⲟⲢⲣⲤⲥⲦⲨⲩⲬⲭ"  # Coptic
    "ıȷɑɡɩɪʋʏᴄᴏᴜᴠᴡᴢꜱꝛꞮ"  # the dotless i and j, letters of phonetics, small capitals
)
"""Letters that look like a Latin one."""
FOREIGN: Ranges = (
    (0x0400, 0x052F), (0x0531, 0x0587), (0x10A0, 0x10FF), (0x13A0, 0x13FF), (0x1400, 0x16FF), (0x1C80, 0x1CBF),
    (0x2C80, 0x2DFF), (0xA4D0, 0xA4FF), (0xA640, 0xA69F), (0xAB70, 0xABBF), (0x10280, 0x1031F), (0x10400, 0x1052F),
    (0x118A0, 0x118FF), (0x16F00, 0x16F9F),
)  # fmt: skip
"""Cyrillic, Armenian, Georgian, Cherokee, Canadian syllabics, Ogham, runes, Coptic, Tifinagh, Lisu, and alphabets of
antiquity: no word has them beside Latin letters. (Greek ones stand in units and formulas.)"""
WIDE: Ranges = (
    (0x2102, 0x2102), (0x210A, 0x210E), (0x2110, 0x2113), (0x2115, 0x2115), (0x2119, 0x211D), (0x2124, 0x2124),
    (0x2128, 0x2128), (0x212A, 0x212A), (0x212C, 0x212D), (0x212F, 0x2131), (0x2133, 0x2134), (0x2145, 0x2149),
    (0x2160, 0x217F), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A), (0x1D400, 0x1D7FF),
)  # fmt: skip
"""Latin letters of another width or style, and Roman numerals, which a host name takes for the plain ones."""
SIGNS: Ranges = (
    (0x2024, 0x2024), (0x2044, 0x2044), (0x2215, 0x2216), (0x2236, 0x2236), (0x29F5, 0x29F5), (0x29F8, 0x29F9),
    (0x3002, 0x3002), (0xA789, 0xA789), (0xFE52, 0xFE52), (0xFE55, 0xFE55), (0xFE68, 0xFE68), (0xFF0E, 0xFF0F),
    (0xFF20, 0xFF20), (0xFF3C, 0xFF3C), (0xFF61, 0xFF61),
)  # fmt: skip
"""What looks like a dot, a slash, a backslash, a colon or an @. Marked between plain letters and digits alone, for
Chinese and Japanese have such signs of their own."""


def _class(ranges: Ranges) -> str:
    return "".join(f"\\U{first:08X}-\\U{last:08X}" for first, last in ranges)


_EMOJI_THEN = f"[{_class(EMOJI)}][\\U0001F3FB-\\U0001F3FF\\uFE0E\\uFE0F]?"
_FLAGS = "|".join("".join(f"\\U{0xE0000 + ord(c):08X}" for c in name) for name in ("gbeng", "gbsct", "gbwls"))
_FINE = (
    f"\\U0001F3F4(?:{_FLAGS})\\U000E007F"  # the flags of England, Scotland, Wales
    f"|{_EMOJI_THEN}(?:\\u200D{_EMOJI_THEN})*"
    "|[0-9#*]\\uFE0F\\u20E3"  # keycaps
    "|\\r\\n"
    f"|[{_class(JOINED)}][\\u200C\\u200D](?=[{_class(JOINED)}])"
)
_LOOKALIKE = re.compile(f"[{LOOKALIKES}{_class(WIDE)}]")
_MIXED = re.compile(f"[{LOOKALIKES}{_class(WIDE)}{_class(FOREIGN)}]")
_SIGN = re.compile(f"(?<=[A-Za-z0-9_-])[{_class(SIGNS)}]+(?=[A-Za-z0-9_-])")
_PART = re.compile(r"[^-_]+")
_HIDDEN = re.compile(f"(?P<fine>{_FINE})|[{_class(HIDDEN)}]")
_BESIDE = f"[{_class(BESIDE)}]+"
_SEEN = re.compile(f"(?P<fine>{_FINE})|[{_class(HIDDEN)}{_class(SHAPELESS)}]|(?<=[!-~]){_BESIDE}|{_BESIDE}(?=[!-~])")
_WORD = re.compile(r"[^\s/\\:@'\"()<>|&;,=?#\[\]{}⟦⟧]+")
_LATIN = re.compile("[A-Za-z]")


def marked(text: str) -> str:
    """`text` with a mark such as `⟦U+202E⟧` for each character that hides, turns what follows, or looks like a Latin
    letter beside Latin ones. What people write stays: emoji, combining accents, words of one script."""
    if text.isascii() and text.isprintable():
        return text
    return _SEEN.sub(lambda found: found["fine"] or _marks(found), _WORD.sub(_unmixed, text))


def without_hidden(text: str) -> str:
    """`text` without the characters that nobody sees: a model reads what a person reads. What people write stays, as
    in `marked`."""
    return _HIDDEN.sub(lambda found: found["fine"] or "", text)


def is_disguised(text: str) -> bool:
    """Whether something in `text` is marked."""
    return marked(text) != text


def _mark(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"


def _marks(found: re.Match[str]) -> str:
    return "".join(map(_mark, found[0]))


def _unmixed(word: re.Match[str]) -> str:
    """A word, such as a host name, with marks for the letters in it that pass for Latin ones."""
    if word[0].isascii() or not _LATIN.search(word[0]):
        return word[0]
    shown = _SIGN.sub(_marks, word[0])
    return ".".join(_unmixed_label(label) for label in shown.split("."))


def _unmixed_label(label: str) -> str:
    """All of it, where it has nothing but lookalikes; else those that stand beside Latin letters."""
    if not _LOOKALIKE.sub("", re.sub(r"[0-9_-]", "", label)):
        return _LOOKALIKE.sub(lambda found: _mark(found[0]), label)
    return _PART.sub(lambda part: _unmixed_part(part[0]), label)


def _unmixed_part(part: str) -> str:
    return _MIXED.sub(lambda found: _mark(found[0]), part) if _LATIN.search(part) else part
