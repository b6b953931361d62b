"""The parts of a running web service, built once and passed on."""

from dataclasses import dataclass

from gadget_api.traces import Tracer
from gadget_code.auth.login_limits import LoginLimits
from gadget_code.auth.passwords import Passwords
from gadget_code.permissions.inquiries import InquiryAnswers
from gadget_code.permissions.policies import Policies
from gadget_code.recording.recorder import Recorder
from gadget_code.recording.replay import Replay
from gadget_code.recording.side_effects import SideEffects
from gadget_code.runtime.background import BackgroundTasks
from gadget_code.runtime.metrics import Metrics
from gadget_code.sessions.reverts import Reverts
from gadget_code.settings import Settings
from gadget_code.sockets.rooms import Rooms
from gadget_code.sockets.server import SocketServer
from gadget_code.store.database import MongoStore
from gadget_code.turns.actions import TurnActions
from gadget_code.turns.dispatch import Dispatcher
from gadget_code.turns.leases import Leases
from gadget_code.turns.sweep import Sweep
from gadget_code.turns.work_orders import WorkOrders
from gadget_code.workspaces.files import WorkspaceFiles


@dataclass(frozen=True)
class Service:
    settings: Settings
    store: MongoStore
    passwords: Passwords
    login_limits: LoginLimits
    background: BackgroundTasks
    sockets: SocketServer
    rooms: Rooms
    dispatcher: Dispatcher
    recorder: Recorder
    leases: Leases
    replay: Replay
    turns: TurnActions
    metrics: Metrics
    inquiries: InquiryAnswers
    policies: Policies
    reverts: Reverts
    sweep: Sweep
    files: WorkspaceFiles

    @classmethod
    def build(
        cls, settings: Settings, store: MongoStore, background: BackgroundTasks, sockets: SocketServer, tracer: Tracer
    ) -> "Service":
        rooms = Rooms(sockets)
        orders = WorkOrders(store, settings)
        policies = Policies(store, rooms, background)
        inquiries = InquiryAnswers(store, rooms, policies, background)
        side_effects = SideEffects(store, rooms, inquiries, background)
        metrics = Metrics()
        recorder = Recorder(store, rooms, side_effects, metrics, background, lambda turn: turns.on_turn_over(turn))
        dispatcher = Dispatcher(store, rooms, orders, policies, recorder, background, tracer)
        leases = Leases(store, rooms, orders, recorder, inquiries, policies)
        turns = TurnActions(store, rooms, recorder, dispatcher, leases, background, tracer)
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
            turns=turns,
            metrics=metrics,
            inquiries=inquiries,
            policies=policies,
            reverts=Reverts(store, rooms, dispatcher),
            sweep=Sweep(store, recorder, dispatcher, leases, inquiries, turns),
            files=WorkspaceFiles(store, rooms),
        )
