"""Pipes that a command prints to."""

import asyncio
import os
from typing import BinaryIO

CHUNK_BYTES = 2**18


async def open_pipe() -> tuple[asyncio.StreamReader, asyncio.ReadTransport, BinaryIO]:
    """What reads, what ends the reading when it is closed, and what is written to."""
    stream = asyncio.StreamReader(limit=CHUNK_BYTES)
    reading, writing = os.pipe()
    written = os.fdopen(writing, "wb", buffering=0)
    try:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", buffering=0)
        )
    except BaseException:
        written.close()
        raise
    return stream, transport, written
