"""HTML on the input, Markdown on the output; a program, for what a hostile page costs in time and memory.

    python -I html_text.py URL [CHARSET]

Whoever starts it bounds its time and kills it; it bounds its own memory. It imports nothing of ours.
"""

import resource
import sys
from contextlib import suppress
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Comment
from markdownify import ATX, MarkdownConverter

MAX_MEMORY_BYTES = 2**30
MAX_TEXT_CHARS = 5_000_000
MAX_NODES = 150_000
"""Of a page that becomes Markdown, which took 4 seconds for so many; pages have thousands."""
_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "object", "head", "form > input")


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    base = sys.argv[1]
    soup = BeautifulSoup(
        sys.stdin.buffer.read(), "html.parser", from_encoding=sys.argv[2] if len(sys.argv) > 2 else None
    )
    title = soup.title.get_text(" ", strip=True) if soup.title is not None else ""
    for found in soup.select(", ".join(_DROPPED)):
        found.decompose()
    for comment in soup.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    _resolve(soup, base)
    text = _markdown(soup)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    kept = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
    whole = "\n".join([*([f"Title: {title}", ""] if title else []), *kept])
    sys.stdout.buffer.write(whole[:MAX_TEXT_CHARS].encode("utf-8", "replace"))


def _markdown(soup: BeautifulSoup) -> str:
    """Of what is huge, or nested thousands deep, the words alone."""
    if sum(1 for _ in soup.descendants) <= MAX_NODES:
        with suppress(RecursionError):
            markdown: str = MarkdownConverter(heading_style=ATX, bullets="-").convert_soup(soup)
            return markdown
    return soup.get_text("\n", strip=True)


def _resolve(soup: BeautifulSoup, base: str) -> None:
    """Links as they are from anywhere; images whose bytes are in the page are dropped."""
    for tag, attribute in (("a", "href"), ("img", "src")):
        for found in soup.find_all(tag):
            given = str(found.get(attribute, ""))
            if given.lower().startswith(("data:", "javascript:")):
                del found[attribute]
            elif given:
                try:
                    found[attribute] = urljoin(base, given)
                except ValueError:
                    del found[attribute]


if __name__ == "__main__":
    main()
