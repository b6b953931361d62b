"""The parts of a running web service, built once and passed on."""

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


class Service:
    def __init__(
        self,
        settings: Settings,
        store: MongoStore,
        background: BackgroundTasks,
        sockets: SocketServer,
        tracer: Tracer,
    ) -> None:
        self.settings = settings
        self.store = store
        self.background = background
        self.sockets = sockets
        self.passwords = Passwords()
        self.login_limits = LoginLimits()
        self.metrics = Metrics()
        self.rooms = rooms = Rooms(sockets)
        orders = WorkOrders(store, settings)
        self.policies = Policies(store, rooms, background)
        self.inquiries = InquiryAnswers(store, rooms, self.policies, background)
        effects = SideEffects(store, rooms, self.inquiries, background)
        self.recorder = Recorder(
            store, rooms, effects, self.metrics, background, lambda turn: self.turns.on_turn_over(turn)
        )
        self.dispatcher = Dispatcher(store, rooms, orders, self.policies, self.recorder, background, tracer)
        self.leases = Leases(store, rooms, orders, self.recorder, self.inquiries, self.policies)
        self.turns = TurnActions(store, rooms, self.recorder, self.dispatcher, self.leases, background, tracer)
        self.replay = Replay(sockets, store, self.recorder)
        self.reverts = Reverts(store, rooms, self.dispatcher)
        self.sweep = Sweep(store, self.recorder, self.dispatcher, self.leases, self.inquiries, self.turns)
        self.files = WorkspaceFiles(store, rooms)
