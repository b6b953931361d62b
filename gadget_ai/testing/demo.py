"""The scripted model of `gadget-code up --demo`, and the small project that it repairs.

It decides by the conversation: which tools have run since the last prompt, and their results.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from gadget_ai.testing.script import Call, Reply, RequestView, Script, Text, Think, message_text

MODEL_ID = "demo"

_NUMERALS_OLD = """\
NUMERALS = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]
"""
_NUMERALS_NEW = """\
NUMERALS = [
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"),
    (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
    (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
]
"""

DEMO_FILES: dict[str, str] = {
    ".gitignore": "__pycache__/\n",
    "README.md": """\
# Roman numerals

`to_roman(number)` writes 1 to 3999 in Roman numerals. Run the tests with `python3 -m unittest -v`.
One of them fails.
""",
    "roman.py": f'''\
"""Roman numerals."""

{_NUMERALS_OLD}

def to_roman(number: int) -> str:
    """`number`, from 1 to 3999, in Roman numerals."""
    letters = []
    for value, letter in NUMERALS:
        while number >= value:
            letters.append(letter)
            number -= value
    return "".join(letters)
''',
    "test_roman.py": """\
import unittest

from roman import to_roman


class ToRoman(unittest.TestCase):
    def test_adds_letters(self) -> None:
        self.assertEqual(to_roman(3), "III")
        self.assertEqual(to_roman(2016), "MMXVI")

    def test_subtracts_a_smaller_letter_before_a_larger_one(self) -> None:
        self.assertEqual(to_roman(4), "IV")
        self.assertEqual(to_roman(9), "IX")
        self.assertEqual(to_roman(1994), "MCMXCIV")


if __name__ == "__main__":
    unittest.main()
""",
}
"""The files of the project: path -> content."""

DEMO_PROMPT = "The tests of this project fail. Find out why, mend it, and run them again."

TEST_COMMAND = "python3 -m unittest -v"
_TITLE_PROMPT = "Name this conversation"
"""The start of a drone's prompt for the title of a session."""
_DELTA_CHARS = 5
_DELTA_PAUSE_S = 0.025

_SUMMARY = """\
The tests pass now.

**What was wrong.** `to_roman` only ever *added* letters, so 4 came out as `IIII` and 9 as `VIIII`.

**What I changed.** `NUMERALS` in `roman.py` now has the six subtractive pairs, in order of value:

| value | 900 | 400 | 90 | 40 | 9 | 4 |
|---|---|---|---|---|---|---|
| letters | `CM` | `CD` | `XC` | `XL` | `IX` | `IV` |

The loop itself did not have to change:

```python
to_roman(1994)  # "MCMXCIV"
```
"""


def demo_script() -> Script:
    """Returns a script without state: it can serve any number of sessions at once."""
    return Script(demo_reply)


def demo_reply(request: RequestView) -> Reply:
    """Returns the next step towards passing tests, or a title for the session. A request for a title has no tools."""
    if not request.tools and any(message_text(message).startswith(_TITLE_PROMPT) for message in request.messages):
        return Reply(Text("Roman numerals and their tests"))
    steps = list(_steps_since_prompt(request.messages))
    done = [name for name, _, _ in steps]
    source = next((result for name, _, result in reversed(steps) if name == "read"), "")
    if not done:
        return Reply(
            _think("The user wants something about this project. I should see what is here before I judge."),
            _say("I look at the project first."),
            Call("list", {"path": "."}),
        )
    if done[-1] == "list":
        return Reply(
            _think("There is a module and its test. The module is what the tests are about."),
            _say("`roman.py` is the module; I read it."),
            Call("read", {"path": "roman.py"}),
        )
    if done[-1] == "read":
        return Reply(
            _think("The code is short. The tests will say what they expect of it."),
            _say("Now I run the tests to see how things stand."),
            Call("shell", {"command": TEST_COMMAND}),
        )
    if done[-1] == "edit":
        if _was_refused(steps[-1][2]):
            return Reply(
                _say("The edit did not go through, so I leave the file as it is. The tool said:\n\n" + _quote(steps))
            )
        return Reply(
            _think("The pairs are in. The greedy loop takes the largest first, so this is enough. The tests decide."),
            _say("I run the tests again."),
            Call("shell", {"command": TEST_COMMAND}),
        )
    if done[-1] == "shell":
        if _tests_pass(steps[-1][2]):
            return Reply(_say(_SUMMARY if "edit" in done else "All is well: the tests pass, there is nothing to mend."))
        if "edit" not in done and _NUMERALS_OLD.strip() in _without_line_numbers(source):
            return Reply(
                _think(
                    "4 comes out as IIII and should be IV. `NUMERALS` has no subtractive pairs, the loop only adds. "
                    "With the pairs 900, 400, 90, 40, 9 and 4 in the table the same loop is right."
                ),
                _say("The subtractive forms are missing from the table: 4 becomes `IIII`. I add them."),
                Call("edit", {"path": "roman.py", "old_text": _NUMERALS_OLD, "new_text": _NUMERALS_NEW}),
            )
    return Reply(
        _say("I am the scripted demo model, and this is not the state that I can mend. I saw:\n\n" + _quote(steps))
    )


def _think(content: str) -> Think:
    return Think(content, deltas=len(content) // _DELTA_CHARS, pause_s=_DELTA_PAUSE_S)


def _say(content: str) -> Text:
    return Text(content, deltas=len(content) // _DELTA_CHARS, pause_s=_DELTA_PAUSE_S)


def _steps_since_prompt(messages: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields name, parameters and result of each tool call after the last prompt."""
    last = max((n for n, message in enumerate(messages) if message["role"] == "user"), default=-1)
    since = messages[last + 1 :]
    calls = [call["function"] for message in since for call in message.get("tool_calls") or ()]
    results = [message_text(message) for message in since if message["role"] == "tool"]
    for function, result in zip(calls, results, strict=False):
        arguments = function["arguments"]
        yield function["name"], orjson.loads(arguments) if isinstance(arguments, str) else arguments, result


def _tests_pass(output: str) -> bool:
    return re.search(r"^OK\b", output, re.MULTILINE) is not None and "FAILED" not in output


def _was_refused(result: str) -> bool:
    return re.match(r"(error|refused|denied|interrupted|cancelled|not allowed)", result.lower()) is not None


def _without_line_numbers(text: str) -> str:
    return re.sub(r"^\s*\d+\s*[\t|:→] ?", "", text, flags=re.MULTILINE)


def _quote(steps: list[tuple[str, dict[str, Any], str]]) -> str:
    return "```\n" + steps[-1][2][-600:] + "\n```"
