"""Which files a simple command names, and whether it reads or changes them.

Of programs that are not known here, arguments that are names of files that exist count as read.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gadget_api.permissions import Capability
from gadget_drone.permissions.git import files_of_git
from gadget_drone.permissions.named import Named
from gadget_drone.permissions.names import names
from gadget_drone.permissions.programs import SHELLS, TRANSPARENT, program_name, sed_script
from gadget_drone.permissions.words import Certainty, Unreadable, Word

_READ, _WRITE = Capability.READ, Capability.WRITE

_READS = names(
    "cat head tail less more bat wc nl tac rev sort uniq cut paste join stat file ls dir tree du diff cmp comm md5sum "
    "sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum base64 base32 xxd od hexdump strings fold fmt expand "
    "column grep egrep fgrep zgrep rg ag ack jq yq cd pushd find source . readlink realpath zcat gzcat bzcat xzcat "
    "iconv look split csplit tar zip gzip bzip2 xz scp rsync openssl gpg"
)
_WRITES = names(
    "rm rmdir unlink shred truncate touch mkdir tee mkfifo mknod sponge gzip bzip2 xz gunzip bunzip2 unxz lzma unlzma"
)
_SQUEEZE = names("gzip bzip2 xz gunzip bunzip2 unxz lzma unlzma")
"""They also write the file without, or with, the end of its name."""
_AFTER_ONE = frozenset({"chmod", "chown", "chgrp", "setfacl"})
_COPIES = frozenset({"cp", "ln", "install", "link", "mv", "rsync", "scp"})
_SEARCHES = frozenset({"grep", "egrep", "fgrep", "zgrep", "rg", "ag", "ack", "jq", "yq"})
_LISTS = frozenset({"ls", "dir", "du", "tree"})
_DEEP = frozenset({"mv", "rg", "ag", "ack", "du", "tree", "tar", "zip", "rsync", "ln"})
"""These reach what is below a directory; others do with -r."""
_MAY_GO_DEEP = frozenset(
    {"grep", "cp", "rm", "chmod", "chown", "chgrp", "diff", "scp", "ls", "setfacl", "egrep", "fgrep"}
)
_OUTPUT = {
    "sort": ("-o", "--output"), "curl": ("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"),
    "wget": ("-O", "--output-document", "-o", "--output-file"), "gcc": ("-o",), "cc": ("-o",), "tree": ("-o",),
    "find": ("-fprint", "-fprint0", "-fls", "-fprintf"), "git": ("-o", "--output"), "time": ("-o", "--output"),
    "patch": ("-o", "--output"), "iconv": ("-o", "--output"), "shuf": ("-o", "--output"), "zstd": ("-o",),
    "pandoc": ("-o", "--output"), "xmllint": ("--output", "-o"), "g++": ("-o",), "clang": ("-o",), "clang++": ("-o",),
    "ld": ("-o",), "rustc": ("-o",), "uudecode": ("-o", "--output-file"), "openssl": ("-out",), "base64": ("-o",),
    "strace": ("-o",), "gpg": ("-o", "--output"),
}  # fmt: skip
_TARGET = ("-t", "--target-directory")
"""Of what copies."""
_FLAGS = {
    "sort": "bcCdfghiMmnRrsuVz", "curl": "#01246aBfgGiIjJkLlMnNOpqRsSvZ", "wget": "bcdEFHkKLmNnpqrSvxV", "shuf": "erz",
    "cp": "abdfHilLnpPrRsTuvxZ", "mv": "bfinTuvZ", "ln": "bdfFiLnPrsTv", "install": "bcCdDpsTvZ", "iconv": "cls",
    "tree": "aACdDfFgJlNpqQrsStuUvxX", "time": "apqv", "patch": "bceEflNnRsTtuvZ", "strace": "cCdDfFhiknNqrtTvVwxyzZ",
    "gpg": "acdekqsv", "zstd": "cdfklqrtvz", "pandoc": "sNS", "base64": "dDi",
}  # fmt: skip
"""Letters without a value, which may stand before one with a value in the same word."""
_ANYWHERE = {
    **dict.fromkeys(("tar", "bsdtar", "gtar"), ("x", "--extract", "--get", "-x")), "unzip": ("",), "patch": ("",),
    "cpio": ("",), "7z": ("x", "e"), "7za": ("x", "e"), "unrar": ("x", "e"), "ar": ("x", "-x"), "rename": ("",),
    "rsync": ("--backup", "--delete"), "wget": ("",), "find": ("-delete",), "perl": ("-i", "-pi"), "split": ("",),
    "csplit": ("",), "curl": ("-O", "-J", "--remote-name", "--remote-name-all", "--output-dir"),
    "yq": ("-i", "--inplace"), "uudecode": ("",), "shar": ("",), "unshar": ("",), "zstd": ("-d", "--decompress"),
    "unzstd": ("",), "lz4": ("-d",), "quilt": ("",),
}  # fmt: skip
"""With such an argument they change files that they do not name; "": always."""
_MAX_LETTERS = 40
"""Of a cluster of options that may end in the name of a file."""


def files_of(words: Sequence[Word]) -> Iterator[Named]:
    """Those of a command that is not known to only read: rather one too many than one too few."""
    name, arguments = program_name(words[0].text), list(words[1:])
    options = [word.text for word in arguments if word.text.startswith("-")]
    is_deep = name in _DEEP or (name in _MAY_GO_DEEP and any("r" in o.lower() for o in options))
    is_deep = is_deep or (name == "cp" and any(o[:2] != "--" and "a" in o for o in options))
    yield from _of_options(name, arguments)
    if name in _ANYWHERE and any(_is_given(start, arguments) for start in _ANYWHERE[name]):
        yield Named(_WRITE, Word("what it writes", Certainty.UNKNOWN))
    operands = _operands(arguments)
    if name in TRANSPARENT:
        with suppress(Unreadable):
            given = TRANSPARENT[name].options.read(arguments)
            yield from (Named(_READ, word) for word in given.reads)
            yield from (Named(_WRITE, word) for word in given.writes)
        yield from (Named(_READ, word, is_sure=False) for word in operands)
    elif name in ("sed", "gsed"):
        _, files, in_place = sed_script(arguments)
        for file in files:
            yield Named(_READ, file)
            if in_place:
                yield Named(_WRITE, file)
    elif name == "dd":
        for word in operands:
            key, _, value = word.text.partition("=")
            if key in ("if", "of"):
                yield Named(_READ if key == "if" else _WRITE, Word(value, word.certainty))
    elif name in _COPIES:
        yield from _copies(name, operands, arguments, is_deep)
    elif name == "git":
        yield from files_of_git(arguments)
    elif name in _WRITES or name in _AFTER_ONE:
        for word in operands[name in _AFTER_ONE :]:
            yield Named(_WRITE, word, is_deep)
            if name in _SQUEEZE:
                yield Named(_READ, word)
                yield Named(_WRITE, Word(word.text.rpartition(".")[0], word.certainty))
    elif name in _SEARCHES:
        # The first may be the pattern, or the value of an option.
        yield from (Named(_READ, word, is_deep, is_sure=False) for word in operands[:1])
        for word in operands[1:] or ([Word(".")] if is_deep else []):
            yield Named(_READ, word, is_deep)
    elif name in _READS:
        for word in operands:
            yield Named(_READ, word, is_deep, is_sure=name != "find", only_names=name in _LISTS)
        if name in ("uniq", "xxd"):
            yield from (Named(_WRITE, word) for word in operands[-1:] if len(operands) > 1)
    elif name in SHELLS:
        yield from (Named(_READ, word) for word in operands[:1] if " " not in word.text)
    elif name not in ("echo", "printf", "test", "[", "[[", "export", "for"):
        yield from (Named(_READ, word, is_sure=False) for word in operands)


def _is_given(start: str, arguments: Sequence[Word]) -> bool:
    """Also among other letters: `-sO`, and `zxf` where it comes first. Without `start`: always."""
    texts = [word.text for word in arguments]
    if start.startswith("--"):
        return any(len(text) > 3 and start.startswith(text.partition("=")[0]) for text in texts if text[:2] == "--")
    if len(start) == 2 and start[0] == "-":
        return any(text[:1] == "-" and text[:2] != "--" and start[1] in text for text in texts)
    return not start or any(text.startswith(start) for text in texts) or any(start in text for text in texts[:1])


def _operands(arguments: Sequence[Word]) -> list[Word]:
    found: list[Word] = []
    only_operands = False
    for word in arguments:
        if word.text == "--" and not only_operands:
            only_operands = True
        elif only_operands or not word.text.startswith("-"):
            found.append(word)
    return found


def _of_options(name: str, arguments: Sequence[Word]) -> Iterator[Named]:
    outputs = _OUTPUT.get(name, ())
    for index, word in enumerate(arguments):
        text = word.text
        _, _, value = text.partition("=")
        if (written := _value_of(name, outputs, word, arguments[index + 1 :])) is not None:
            yield Named(_WRITE, written)
        elif name not in ("echo", "printf"):
            parts = {value, text.rpartition("@")[2] if "@" in text else ""}
            if text[:1] == "-":
                # Behind any of the letters a value may begin: `-vf.env`.
                parts |= {text[at:] for at in range(2, min(len(text), _MAX_LETTERS))}
            for part in sorted(parts - {""}):
                yield Named(_READ, Word(part, word.certainty), is_sure=False)


def _copies(name: str, operands: list[Word], arguments: Sequence[Word], is_deep: bool) -> Iterator[Named]:
    given = (_value_of(name, _TARGET, word, arguments[index + 1 :]) for index, word in enumerate(arguments))
    target = next((value for value in given if value is not None), None)
    if target is not None:
        sources = [word for word in operands if word is not target]
    else:
        sources, target = operands[:-1] or operands, operands[-1] if operands else None
    if name == "install" and any(word.text in ("-d", "--directory") for word in arguments):
        yield from (Named(_WRITE, word) for word in operands)
    for word in sources:
        yield Named(_READ, word, is_deep)
        if name == "mv":
            yield Named(_WRITE, word, is_deep)
    if target is not None and (len(operands) > 1 or target not in operands):
        # A directory may be copied over one that is there; what is moved is new there.
        yield Named(_WRITE, target, is_deep=is_deep and name not in ("mv", "ln"))
        for word in sources:
            # Into a directory it comes under its own name.
            inside = f"{target.text.rstrip('/')}/{word.text.rstrip('/').rpartition('/')[2]}"
            yield Named(_WRITE, Word(inside, max(target.certainty, word.certainty)))


def _value_of(name: str, options: Sequence[str], word: Word, following: Sequence[Word]) -> Word | None:
    """What `word` gives to one of `options`, which may be shortened, behind other letters, or have it behind them."""
    text = word.text
    if text.startswith("--"):
        option, has_value, value = text.partition("=")
        if len(option) > 2 and any(known.startswith(option) for known in options):
            return Word(value, word.certainty) if has_value else next(iter(following), None)
        return None
    if text in options:
        return next(iter(following), None)
    letters = re.escape("".join(known[1] for known in options if len(known) == 2))
    found = re.match(f"-[{re.escape(_FLAGS.get(name, '')) or letters}]*?[{letters}]", text) if letters else None
    if found is None:
        return None
    value = text[found.end() :]
    return Word(value, word.certainty) if value else next(iter(following), None)
