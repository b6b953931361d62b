"""What is a command, and what is a prompt that looks like one."""

import pytest

from gadget_drone.context.commands import Clear, Compact, read_command


@pytest.mark.parametrize(
    ("prompt", "command"),
    [
        ("/compact", Compact(None)),
        ("/compact  the parser\nand its tests \n", Compact("the parser\nand its tests")),
        ("/compact\n", Compact(None)),
        ("/clear", Clear()),
        ("/clear now", Clear()),
        ("/compacting is what I mean", None),
        ("Please /compact", None),
        ("/cleared", None),
        ("", None),
    ],
)
def test_a_command_stands_at_the_beginning_as_a_word(prompt: str, command: Compact | Clear | None) -> None:
    assert read_command(prompt) == command
