"""The sweep: looks at intervals for work that a dead process left, or that no event triggers. Every step is idempotent,
so every web process may sweep."""

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import timedelta

from gadget_api.errors import GadgetError
from gadget_code.permissions.inquiries import InquiryAnswers
from gadget_code.recording.recorder import Recorder
from gadget_code.store.database import MongoStore
from gadget_code.turns.actions import CANCEL_S, TurnActions
from gadget_code.turns.dispatch import Dispatcher
from gadget_code.turns.leases import Leases

log = logging.getLogger(__name__)

_SWEEP_S = 5.0
_RENEWAL_S = 10.0
"""Within this time after an outage of the database, every web process has renewed its drones' leases."""


@dataclass(frozen=True)
class Sweep:
    store: MongoStore
    recorder: Recorder
    dispatcher: Dispatcher
    leases: Leases
    inquiries: InquiryAnswers
    actions: TurnActions

    async def run(self) -> None:
        """Runs as long as the service."""
        trusted_from = 0.0
        while True:
            begun = time.monotonic()
            try:
                if begun >= trusted_from:
                    await self.leases.check()
                for turn in await self.store.turns.cancel_overdue(timedelta(seconds=CANCEL_S)):
                    await self.recorder.cancel(turn)
                for turn in await self.store.turns.ended_with_steers():
                    await self.actions.submit_steers(turn)
                await self.inquiries.check()
                for user in await self.store.turns.users_with_queued():
                    self.dispatcher.kick(user)
            except GadgetError as exc:
                log.warning("the sweep failed and is repeated: %s", exc.message)
                trusted_from = time.monotonic() + _RENEWAL_S
            if time.monotonic() - begun > _SWEEP_S:  # leases may have expired meanwhile
                trusted_from = time.monotonic() + _RENEWAL_S
            await asyncio.sleep(_SWEEP_S)
