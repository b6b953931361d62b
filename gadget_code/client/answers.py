"""Reads a user's answers to inquiries from the terminal that shows the turn."""

import asyncio
import os
import sys
import termios
from collections.abc import Awaitable, Callable

from rich.console import Console
from rich.text import Text

from gadget_api.inquiries import DENY, ONCE, Answer, Inquiry, InquiryKind
from gadget_code.client.render import TerminalRenderer, clean, warning_of

_MAX_LINE_BYTES = 64 * 1024


class AnswerReader:
    """Reads answers from standard input line by line. Uses no thread, because a thread that reads cannot be stopped."""

    def __init__(self, console: Console) -> None:
        self._console = console

    async def ask(self, inquiry: Inquiry) -> Answer:
        """Asks until the answer is valid. Raises EOFError at the end of the input."""
        # Discard what was typed before the question was shown.
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._show(inquiry)
        while True:
            self._console.print(Text("> ", style="bold"), end="")
            answer = _understood(inquiry, await _line())
            problem = inquiry.check(answer)
            if problem is None:
                return answer
            self._console.print(Text(problem, style="yellow"))

    def _show(self, inquiry: Inquiry) -> None:
        self._console.print(Text.assemble(("? ", "bold yellow"), (clean(inquiry.title), "bold")))
        if inquiry.detail:
            self._console.print(Text(clean(inquiry.detail)))
        for verdict in inquiry.verdicts:
            self._console.print(Text(clean(verdict.because), style="dim"))
        labels = [choice.label for choice in inquiry.choices]
        if warning := warning_of(inquiry.title, inquiry.detail, *labels):
            self._console.print(Text(warning, style="bold red"))
        for number, choice in enumerate(inquiry.choices, 1):
            default = "  (if nobody answers)" if choice.id == inquiry.default.choice else ""
            self._console.print(Text(f"  {number}  {clean(choice.label)}{default}"))
        if inquiry.takes_text:
            self._console.print(Text(_how(inquiry), style="dim"))


def _how(inquiry: Inquiry) -> str:
    """Explains how to answer in words."""
    if inquiry.kind is InquiryKind.APPROVAL:
        return f"A number. To deny it and tell the agent what to do instead: {DENY} and your words."
    return "A number, or your answer in words."


def _understood(inquiry: Inquiry, line: str) -> Answer:
    """Parses a line: a choice's number or id, `3 because ...` for a choice with words, or words alone."""
    first, _, rest = line.strip().partition(" ")
    known = {choice.id: choice.id for choice in inquiry.choices}
    known |= {str(number): choice.id for number, choice in enumerate(inquiry.choices, 1)}
    if inquiry.kind is InquiryKind.APPROVAL:
        known |= {"y": ONCE, "yes": ONCE, "n": DENY, "no": DENY}
    if first in known and (inquiry.takes_text or not rest):
        return Answer(choice=known[first], text=rest.strip() or None)
    return Answer(text=line.strip() or None)


async def _line() -> str:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    pieces: list[bytes] = []

    def read() -> None:
        piece = os.read(sys.stdin.fileno(), 4096)
        pieces.append(piece)
        if not done.done() and (not piece or b"\n" in piece or sum(map(len, pieces)) > _MAX_LINE_BYTES):
            if not piece and len(pieces) == 1:
                done.set_exception(EOFError())
            else:
                done.set_result(b"".join(pieces).decode(errors="replace"))

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await done
    finally:
        loop.remove_reader(sys.stdin.fileno())


def answer_reader(terminal: TerminalRenderer, *, is_json: bool) -> Callable[[Inquiry], Awaitable[Answer]] | None:
    """Returns the function that asks the person at the terminal; None when there is no person."""
    if is_json or not (sys.stdin.isatty() and terminal.console.is_terminal):
        return None
    asking = AnswerReader(terminal.console)

    async def ask(inquiry: Inquiry) -> Answer:
        terminal.pause()
        try:
            return await asking.ask(inquiry)
        except EOFError:
            terminal.waiting(f"answer it from elsewhere: gadget-code inquiry answer {inquiry.id} CHOICE")
            raise

    return ask
