"""The parts of a running web service, made once and passed on."""

from dataclasses import dataclass

from gadget_api.traces import Tracer
from gadget_code.auth.login_limits import LoginLimits
from gadget_code.auth.passwords import Passwords
from gadget_code.permissions.inquiries import Inquiries
from gadget_code.permissions.policies import Policies
from gadget_code.recording.recorder import Recorder
from gadget_code.recording.replay import Replay
from gadget_code.recording.side_effects import Consequences
from gadget_code.runtime.background import Background
from gadget_code.runtime.metrics import Metrics
from gadget_code.sessions.reverts import Reverting
from gadget_code.settings import Settings
from gadget_code.sockets.rooms import Rooms
from gadget_code.sockets.server import SocketServer
from gadget_code.store.database import Store
from gadget_code.turns.actions import TurnVerbs
from gadget_code.turns.dispatch import Dispatcher
from gadget_code.turns.leases import Leases
from gadget_code.turns.sweep import Sweep
from gadget_code.turns.work_orders import Orders
from gadget_code.workspaces.files import Files


@dataclass(frozen=True)
class Service:
    settings: Settings
    store: Store
    passwords: Passwords
    login_limits: LoginLimits
    background: Background
    sockets: SocketServer
    rooms: Rooms
    dispatcher: Dispatcher
    recorder: Recorder
    leases: Leases
    replay: Replay
    verbs: TurnVerbs
    metrics: Metrics
    inquiries: Inquiries
    policies: Policies
    reverting: Reverting
    sweep: Sweep
    files: Files

    @classmethod
    def build(
        cls, settings: Settings, store: Store, background: Background, sockets: SocketServer, tracer: Tracer
    ) -> "Service":
        rooms = Rooms(sockets)
        orders = Orders(store, settings)
        policies = Policies(store, rooms, background)
        inquiries = Inquiries(store, rooms, policies, background)
        consequences = Consequences(store, rooms, inquiries, background)
        metrics = Metrics()
        recorder = Recorder(store, rooms, consequences, metrics, background, lambda turn: verbs.after(turn))
        dispatcher = Dispatcher(store, rooms, orders, policies, recorder, background, tracer)
        leases = Leases(store, rooms, orders, recorder, inquiries, policies)
        verbs = TurnVerbs(store, rooms, recorder, dispatcher, leases, background, tracer)
        return cls(
            settings=settings,
            store=store,
            passwords=Passwords(),
            login_limits=LoginLimits(),
            background=background,
            sockets=sockets,
            rooms=rooms,
            dispatcher=dispatcher,
            recorder=recorder,
            leases=leases,
            replay=Replay(sockets, store, recorder),
            verbs=verbs,
            metrics=metrics,
            inquiries=inquiries,
            policies=policies,
            reverting=Reverting(store, rooms, dispatcher),
            sweep=Sweep(store, recorder, dispatcher, leases, inquiries, verbs),
            files=Files(store, rooms),
        )
