/** Watches one session: its turns, and the user's actions in it. */
import { ApiError, errorText } from "../api/http";
import * as api from "../api/resources";
import { isOver } from "../api/turn-status";
import type {
  Answer,
  ChatSession,
  ChatTurn,
  DroneRegistration,
  Inquiry,
  SessionLock,
  TurnEvent,
  WorkspaceMode,
} from "../api/types";
import { StreamCursor } from "../live/cursor";
import { FrameBatch } from "../live/frames";
import type { Connection } from "../live/connection.svelte";
import { PushTracker } from "../live/push-tracker";
import { TurnView } from "./turn.svelte";
import { newId } from "./ids";

const OLDER = 100; // turns at a time

export class SessionView {
  doc = $state.raw<ChatSession | null>(null);
  /** Oldest first. */
  turns = $state.raw<TurnView[]>([]);
  lock = $state.raw<SessionLock | null>(null);
  workspaceMode = $state<WorkspaceMode>("idle");
  /** Whether the session was loaded since the connection was last opened. */
  isCurrent = $state(false);
  error = $state<string | null>(null);
  /** The cursor for the next page of older turns; null if there are none. */
  olderThan = $state<string | null>(null);
  isLoadingOlder = $state(false);

  private readonly cursor = new StreamCursor();
  private readonly batch = new FrameBatch<TurnEvent>((events) => this.applyAll(events));
  private readonly pushTracker = new PushTracker();
  private stops: (() => void)[] = [];
  private isLoaded = false;
  private selecting: Promise<void> | null = null;
  private isAskedAgain = false;

  constructor(
    readonly id: string,
    private readonly connection: Connection,
  ) {}

  /** Watches the session until `close`. */
  open(): void {
    const { connection } = this;
    this.stops = [
      connection.onAny((name, payload) => {
        if (isTurnEvent(name, payload)) this.receive(payload);
      }),
      connection.on("turnStatus", ({ turn }) => {
        if (turn.session === this.id) this.putTurn(turn);
      }),
      connection.on("sessionUpdated", ({ session }) => {
        if (session._id === this.id) this.push("doc", session);
      }),
      connection.on("sessionLock", (change) => {
        if (change.chatSessionId === this.id) this.push("lock", change.lock);
      }),
      connection.on("workspaceMode", (change) => {
        if (change.chatSessionId === this.id) this.push("workspaceMode", change.mode);
      }),
      connection.on("droneStatus", ({ drone }) => {
        // Other sessions of the drone work on the same files. While a turn of this session runs, only `workspaceMode`
        // counts, because a drone status may be older and arrive later.
        if (this.isOn(drone) && drone.turn !== this.running?.id) this.push("workspaceMode", drone.workspaceMode);
      }),
      connection.on("inquiryChanged", ({ inquiry }) => {
        if (inquiry.session === this.id) this.putInquiry(inquiry);
      }),
      connection.onOnline(() => {
        this.isCurrent = false;
        this.select();
      }),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
    this.isCurrent = false;
    this.batch.flushNow();
  }

  get running(): TurnView | null {
    return this.turns.find((turn) => turn.doc.status === "processing") ?? null;
  }

  /** The question that waits for the user's answer. */
  get waiting(): Inquiry | null {
    for (const item of this.running?.items ?? []) {
      if (item.kind === "inquiry" && item.inquiry.status === "pending") return item.inquiry;
    }
    return null;
  }

  /** Whether `drone` holds the session's workspace. */
  isOn(drone: DroneRegistration): boolean {
    if (this.doc === null) return false;
    if (this.doc.workspaceId !== null) return drone.workspaceId === this.doc.workspaceId;
    return drone._id === (this.lock?.droneId ?? this.doc.lock?.droneId ?? this.doc.drone);
  }

  get queued(): TurnView[] {
    return this.turns.filter((turn) => turn.doc.status === "queued");
  }

  get latest(): TurnView | null {
    return this.turns.at(-1) ?? null;
  }

  /** Stores a prompt. `promptId` makes repeats safe: the service stores each id once. */
  async submit(content: string, promptId: string, images: string[] = []): Promise<void> {
    const prompt = { chatSessionId: this.id, content, promptId };
    // An older service refuses the field `images`, so it is sent only with images.
    const { turn } = await this.connection.call("submitPrompt", images.length ? { ...prompt, images } : prompt);
    this.putTurn(turn);
  }

  async steer(turn: TurnView, content: string): Promise<void> {
    await this.connection.call("steerTurn", { turnId: turn.id, content, steerId: newId() });
  }

  async cancel(turn: TurnView): Promise<void> {
    try {
      await this.connection.call("cancelTurn", { turnId: turn.id });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "turnOver")) throw error;
    }
  }

  /** Reorders the queued prompts. `prompts` holds their `promptId`s. */
  async reorder(prompts: string[]): Promise<void> {
    const queue = await api.putQueueOrder(this.id, prompts);
    for (const turn of queue.items) this.putTurn(turn);
  }

  async continueElsewhere(turn: TurnView, droneId: string | null): Promise<void> {
    await this.connection.call("continueTurn", { turnId: turn.id, droneId });
  }

  async answer(inquiry: Inquiry, answer: Answer): Promise<void> {
    await this.connection.call("answerInquiry", { inquiryId: inquiry._id, ...answer });
  }

  async setLock(droneId: string | null): Promise<void> {
    if (droneId === null) await this.connection.call("releaseSessionLock", { chatSessionId: this.id });
    else await this.connection.call("requestSessionLock", { chatSessionId: this.id, droneId });
  }

  async setMode(mode: WorkspaceMode): Promise<void> {
    await this.connection.call("requestWorkspaceMode", { chatSessionId: this.id, mode });
  }

  async loadOlder(): Promise<void> {
    if (this.olderThan === null || this.isLoadingOlder) return;
    this.isLoadingOlder = true;
    try {
      const page = await api.turns(this.id, OLDER, this.olderThan);
      for (const turn of page.items) this.putTurn(turn);
      this.olderThan = page.nextCursor;
    } finally {
      this.isLoadingOlder = false;
    }
  }

  /** Loads the events of a finished turn. */
  async loadTurn(turn: TurnView): Promise<void> {
    if (turn.source !== "none") return;
    turn.source = "loading";
    turn.loadError = null;
    try {
      const events = await api.steps(turn.id);
      turn.load(events);
    } catch (error) {
      turn.source = "none";
      turn.loadError = errorText(error);
    }
  }

  putInquiry(inquiry: Inquiry): void {
    this.turnOf(inquiry.turn)?.putInquiry(inquiry);
  }

  private push<Name extends "doc" | "lock" | "workspaceMode">(name: Name, value: this[Name]): void {
    this.pushTracker.pushed(name);
    this[name] = value;
  }

  private receive(event: TurnEvent): void {
    if (event.chatSessionId !== this.id) return;
    const verdict = this.cursor.take(event);
    if (verdict === "next") {
      this.batch.push(event);
    } else if (verdict === "replaces") {
      this.batch.flushNow();
      this.turnOf(event.turnId)?.rewind(event.seq);
      this.batch.push(event);
    } else if (verdict === "gap") {
      this.select();
    }
  }

  private applyAll(events: TurnEvent[]): void {
    for (const event of events) {
      const turn = this.turnOf(event.turnId);
      // The document of a new turn may arrive after its first events: they wait for it.
      if (turn !== null) turn.apply(event);
      else this.early.set(event.turnId, [...(this.early.get(event.turnId) ?? []), event]);
    }
  }

  private readonly early = new Map<string, TurnEvent[]>();

  private select(): void {
    if (this.selecting !== null) {
      this.isAskedAgain = true;
      return;
    }
    this.selecting = this.selectNow().finally(() => {
      this.selecting = null;
      if (this.isAskedAgain) {
        this.isAskedAgain = false;
        this.select();
      }
    });
  }

  private async selectNow(): Promise<void> {
    try {
      const asks = this.connection.call("selectSession", { chatSessionId: this.id, after: this.cursor.last });
      const [reply, newer] = await this.pushTracker.track(asks);
      const isFirst = !this.isLoaded;
      this.isLoaded = true;
      if (!newer.has("doc")) this.doc = reply.session;
      if (!newer.has("lock")) this.lock = reply.lock;
      if (!newer.has("workspaceMode")) this.workspaceMode = reply.workspaceMode;
      const newest = reply.turns[0];
      if (this.cursor.last === null && newest !== undefined && reply.turns.every(isOver)) {
        this.cursor.last = { turnId: newest._id, seq: newest.lastSeq, epoch: newest.epoch };
      }
      for (const turn of [...reply.turns].reverse()) this.putTurn(turn);
      if (isFirst) this.olderThan = reply.turns.length >= 20 ? reply.turns.at(-1)!._id : null;
      this.error = null;
      this.isCurrent = true;
    } catch (error) {
      if (error instanceof ApiError && error.code === "serverUnreachable") return; // the reconnect selects it
      this.error = errorText(error);
    }
  }

  private turnOf(id: string): TurnView | null {
    return this.turns.findLast((turn) => turn.id === id) ?? null;
  }

  private putTurn(doc: ChatTurn): void {
    // Apply the events that arrived before the document first.
    this.batch.flushNow();
    // Reordering the queue gives a turn a new id. Documents with the old id may arrive late.
    if (this.turns.some((turn) => turn.doc.formerIds.includes(doc._id))) return;
    if (this.turns.some((turn) => doc.formerIds.includes(turn.id))) {
      this.turns = this.turns.filter((turn) => !doc.formerIds.includes(turn.id));
    }
    const known = this.turnOf(doc._id);
    if (known !== null) {
      known.update(doc);
      if (doc.reverted !== known.doc.reverted) known.doc = { ...known.doc, reverted: doc.reverted };
      return;
    }
    const view = new TurnView(doc);
    const at = this.turns.findIndex((turn) => turn.id > doc._id);
    this.turns = at < 0 ? [...this.turns, view] : [...this.turns.slice(0, at), view, ...this.turns.slice(at)];
    for (const event of this.early.get(doc._id) ?? []) view.apply(event);
    this.early.delete(doc._id);
  }
}

/** Recognises an event by its shape, not by a list: an event type of a newer service has a `seq` that counts, too. */
function isTurnEvent(name: string, payload: unknown): payload is TurnEvent {
  return typeof payload === "object" && payload !== null && "seq" in payload && "type" in payload && payload.type === name;
}
