"""Shows a turn on a terminal: text as it streams, a line for each tool call, a spinner while nothing is streamed."""

import json
import sys
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.status import Status
from rich.text import Text

from gadget_api.disguise import is_disguised, marked
from gadget_api.errors import ErrorInfo
from gadget_api.turns import TurnStats

DISGUISED = "It has characters that hide or look like others: they are shown as marks such as ⟦U+202E⟧."
_MAX_PARAMS = 100


class Renderer(Protocol):
    def show(self, name: str, payload: dict[str, Any]) -> None:
        """Shows one event of the turn."""
        ...

    def waiting(self, reason: str) -> None:
        """Shows that the turn waits, and why; "" when there is no special reason."""
        ...

    def close(self) -> None: ...


class JsonRenderer:
    """Prints each event as one line of JSON, for programs."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out

    def show(self, name: str, payload: dict[str, Any]) -> None:
        self._out.write(json.dumps(payload, ensure_ascii=False) + "\n")
        self._out.flush()

    def waiting(self, reason: str) -> None:
        if reason:
            print(reason, file=sys.stderr)

    def close(self) -> None:
        self._out.flush()


class TerminalRenderer:
    """Shows a turn for people; without colour and spinner when the output is a pipe."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._open_text: str | None = None
        """The kind of text that the current line shows, while the line is not finished."""
        self._waiting_for: str | None = None if self._console.is_terminal else ""

    def show(self, name: str, payload: dict[str, Any]) -> None:
        self._stop_spinner()
        match name:
            case "thinking" | "response":
                self._text(name, payload["content"])
            case "toolStarted":
                self._line(f"● {payload['name']} ", "bold cyan", _brief(payload["params"]))
                self._spin(payload["name"])
            case "toolCall":
                seconds = payload["durationMs"] / 1000
                mark, style = ("✗", "red") if payload["isError"] else ("✓", "green")
                detail = f"{seconds:.1f}s"
                if payload["isError"]:
                    # The last line of a failed command is its exit status; other tools report one line.
                    detail += " " + (clean(payload["response"]).strip().splitlines() or [""])[-1][:200]
                self._line(f"  {mark} ", style, detail)
                self._spin("thinking")
            case "step":
                self._end_text()
            case "steered":
                self._line("» ", "bold", clean(payload["content"]))
            case "notice":
                style = {"warning": "yellow", "error": "red"}.get(payload["level"], "dim")
                self._line("· ", style, clean(payload["message"]))
                self._spin("working")
            case "inquiryAsked":
                inquiry = payload["inquiry"]
                self._line("? ", "bold yellow", clean(inquiry["title"]))
                if inquiry["detail"]:
                    self._line("", "", clean(inquiry["detail"]))
                if warning := warning_of(inquiry["title"], inquiry["detail"]):
                    self._line("! ", "bold red", warning)
                self._line("", "", f"Answer with: gadget-code inquiry answer {inquiry['_id']} CHOICE")
                self._spin("waiting for an answer")
            case "inquiryAnswered":
                answer = payload["answer"]["answer"]
                text = " ".join(clean(word) for word in (answer["choice"], answer["text"]) if word)
                self._line("  ↳ ", "bold", f"{text} ({payload['answer']['status']})")
            case "compacted":
                self._line("· ", "dim", f"context: {payload['tokensBefore']:,} → {payload['tokensAfter']:,} tokens")
            case "workOrderComplete":
                self._summary(payload)

    def pause(self) -> None:
        """Stops the spinner, because a person types on this terminal."""
        self._stop_spinner()
        self._end_text()

    @property
    def console(self) -> Console:
        return self._console

    def waiting(self, reason: str) -> None:
        if reason == self._waiting_for:
            return
        self._waiting_for = reason
        self._end_text()
        if self._console.is_terminal:
            self._spin(reason or "starting")
        else:
            self._console.print(Text(clean(reason), style="dim"))

    def close(self) -> None:
        self._stop_spinner()
        self._end_text()

    def _text(self, kind: str, content: str) -> None:
        if self._open_text != kind:
            self._end_text()
            self._open_text = kind
        self._console.print(Text(clean(content), style="dim italic" if kind == "thinking" else ""), end="")

    def _end_text(self) -> None:
        if self._open_text is not None:
            self._console.print()
            self._open_text = None

    def _line(self, head: str, style: str, rest: str) -> None:
        self._end_text()
        self._console.print(Text.assemble((clean(head), style), (rest, "dim")))

    def _summary(self, payload: dict[str, Any]) -> None:
        self._end_text()
        stats = TurnStats.model_validate(payload["stats"])
        cached = f" ({stats.cached_input_tokens:,} cached)" if stats.cached_input_tokens else ""
        tokens = f"{stats.input_tokens:,} tokens in{cached}, {stats.response_tokens:,} out"
        cost = f", ${stats.cost:.4f}" if stats.cost is not None else ""
        tools = f"{stats.tool_call_count} tool call{'' if stats.tool_call_count == 1 else 's'}"
        style = "green" if payload["success"] else "red"
        self._console.print(
            Text.assemble((payload["status"], style), (f" in {stats.duration_label}: {tools}, {tokens}{cost}", "dim"))
        )
        if (error := payload.get("error")) is not None:
            self._console.print(Text(clean(ErrorInfo.model_validate(error).message), style="red"))
        self._console.print(Text(f"session {payload['chatSessionId']}: continue it with --continue", style="dim"))

    def _spin(self, what: str) -> None:
        if self._console.is_terminal:
            self._stop_spinner()
            self._status = self._console.status(Text(f"{clean(what)} …", style="dim"))
            self._status.start()

    def _stop_spinner(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def clean(text: str) -> str:
    """Replaces control characters and characters that hide or look like others by visible marks: other people wrote the
    text."""
    return marked(text.replace("\r\n", "\n"))


def warning_of(*texts: str) -> str:
    """Returns the warning for texts that `clean` changes; "" when there are none."""
    return DISGUISED if any(is_disguised(text.replace("\r\n", "\n")) for text in texts) else ""


def _brief(params: dict[str, Any]) -> str:
    """Formats a tool's parameters on one line."""
    text = ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in params.items())
    text = clean(text)
    return text if len(text) <= _MAX_PARAMS else text[: _MAX_PARAMS - 1] + "…"
