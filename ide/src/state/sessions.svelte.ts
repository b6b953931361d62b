/** The list of sessions, with the state of each: what it does, whether it waits for the user, whether it is unread. */
import { SvelteMap } from "svelte/reactivity";

import { ApiError, errorText } from "../api/http";
import * as api from "../api/resources";
import { isOver } from "../api/turn-status";
import type { ChatSession, ChatTurn, Inquiry, LatestTurn, ListedSession } from "../api/types";
import { readStored, store } from "../browser-storage";
import type { Connection } from "../live/connection.svelte";
import { PushTracker } from "../live/push-tracker";

const SEEN = "gadget.seen";
const MAX_SEEN = 500;

export type SessionState = "idle" | "queued" | "running" | "waiting" | "unusual" | "lost" | "failed";

export class SessionList {
  items = $state.raw<ChatSession[]>([]);
  nextCursor = $state<string | null>(null);
  isLoaded = $state(false);
  error = $state<string | null>(null);
  /** The turn that determines the state of a session, by session id. */
  readonly latest = new SvelteMap<string, LatestTurn>();
  /** The pending questions, by id. */
  readonly inquiries = new SvelteMap<string, Inquiry>();
  private readonly seen = new SvelteMap<string, string>(readStored<[string, string][]>(SEEN, []));
  private readonly pushTracker = new PushTracker();
  private watched: string | null = null;
  private stops: (() => void)[] = [];

  constructor(private readonly connection: Connection) {}

  /** Calls `onTurn` for turns that end or become unusually expensive, and `onInquiry` for new questions. */
  open(onTurn: (turn: ChatTurn) => void, onInquiry: (inquiry: Inquiry) => void): void {
    const { connection } = this;
    this.stops = [
      connection.on("sessionUpdated", ({ session }) => this.put(session)),
      connection.on("turnStatus", ({ turn }) => {
        const before = this.latest.get(turn.session);
        this.putTurn(turn);
        const ends = isOver(turn) && before?._id === turn._id && !isOver(before);
        if (ends || (turn.unusualAt && turn.unusualAt !== before?.unusualAt)) onTurn(turn);
      }),
      connection.on("inquiryChanged", ({ inquiry }) => this.putInquiry(inquiry, onInquiry)),
      connection.on("inquiryAsked", ({ inquiry }) => this.putInquiry(inquiry, onInquiry)),
      connection.onOnline(() => void this.refresh()),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
  }

  async refresh(): Promise<void> {
    try {
      const [[page, pinned], newer] = await this.pushTracker.track(Promise.all([api.sessions(), api.pinnedSessions()]));
      const listed = [...page.items, ...pinned];
      const fresh = new Map<string, ChatSession>(
        listed.filter((session) => !newer.has(session._id)).map((session) => [session._id, session]),
      );
      const oldest = page.items.at(-1)?._id ?? "";
      // Sessions after the first page stay.
      const stays = (id: string) => newer.has(id) || (id < oldest && !fresh.has(id));
      this.items = inOrder([...fresh.values(), ...this.items.filter((session) => stays(session._id))]);
      for (const session of listed) this.updateState(session);
      if (!this.isLoaded || page.nextCursor === null) this.nextCursor = page.nextCursor;
      this.isLoaded = true;
      this.error = null;
      await this.loadInquiries();
    } catch (error) {
      this.error = errorText(error);
    }
  }

  async more(): Promise<void> {
    if (this.nextCursor === null) return;
    const [page, newer] = await this.pushTracker.track(api.sessions(this.nextCursor));
    this.putListed(page.items, newer);
    this.nextCursor = page.nextCursor;
  }

  /** Loads the archived sessions. */
  async loadArchived(): Promise<void> {
    this.putListed(...(await this.pushTracker.track(api.archivedSessions())));
  }

  get(id: string): ChatSession | undefined {
    return this.items.find((session) => session._id === id);
  }

  put(session: ChatSession): void {
    this.pushTracker.pushed(session._id);
    const others = this.items.filter((known) => known._id !== session._id);
    this.items = inOrder([session, ...others]);
  }

  drop(id: string): void {
    this.pushTracker.pushed(id);
    this.items = this.items.filter((session) => session._id !== id);
    this.latest.delete(id);
  }

  /** Sets the session that the page shows. Its turns count as read. */
  watch(id: string | null): void {
    this.watched = id;
    const turn = id === null ? undefined : this.latest.get(id);
    if (id !== null && turn !== undefined) this.see(id, turn);
  }

  stateOf(id: string): SessionState {
    const turn = this.latest.get(id);
    if (this.waitsFor(id) !== null || (turn !== undefined && !isOver(turn) && turn.inquiry !== null)) return "waiting";
    if (turn === undefined || turn.status === "finished" || turn.status === "cancelled") return "idle";
    if (turn.status === "error") return this.isUnread(id) ? "failed" : "idle";
    if (turn.waiting === "droneLost") return "lost";
    if (turn.unusualAt) return "unusual";
    return turn.status === "queued" ? "queued" : "running";
  }

  waitsFor(id: string): Inquiry | null {
    for (const inquiry of this.inquiries.values()) if (inquiry.session === id) return inquiry;
    return null;
  }

  isUnread(id: string): boolean {
    const turn = this.latest.get(id);
    if (turn === undefined || !isOver(turn)) return false;
    const seen = this.seen.get(id);
    return seen !== undefined && seen < turn._id;
  }

  /** Returns the time of the last known activity. */
  activeAt(session: ChatSession): string {
    const turn = this.latest.get(session._id);
    return turn?.endedAt ?? turn?.createdAt ?? session.createdAt;
  }

  private putListed(listed: ListedSession[], newer: ReadonlySet<string>): void {
    for (const session of listed) {
      if (!newer.has(session._id)) this.put(session);
      this.updateState(session);
    }
  }

  /** Updates a session's state from the list, unless a push was newer. */
  private updateState({ _id: session, latestTurn: turn }: ListedSession): void {
    const known = this.latest.get(session);
    if (turn === null || (known !== undefined && (known._id > turn._id || (known._id === turn._id && isOver(known))))) return;
    this.set(session, turn);
  }

  private putTurn(turn: ChatTurn): void {
    const known = this.latest.get(turn.session);
    // Reordering the queue gives a turn a new id.
    const isMoved = known !== undefined && turn.formerIds.includes(known._id);
    if (known !== undefined && !isMoved) {
      if (known._id > turn._id) return;
      // While an earlier turn runs or is queued, a later one counts only once it runs.
      if (!isOver(known) && known._id < turn._id && turn.status !== "processing") return;
    }
    this.set(turn.session, turn);
  }

  private set(session: string, turn: LatestTurn): void {
    this.latest.set(session, turn);
    if (this.seen.get(session) === undefined || session === this.watched) this.see(session, turn);
    if (isOver(turn)) {
      for (const [id, inquiry] of this.inquiries) if (inquiry.turn === turn._id) this.inquiries.delete(id);
    }
  }

  private putInquiry(inquiry: Inquiry, onNew: (inquiry: Inquiry) => void): void {
    this.pushTracker.pushed(inquiry._id);
    if (inquiry.status !== "pending") {
      this.inquiries.delete(inquiry._id);
      return;
    }
    const isNew = !this.inquiries.has(inquiry._id);
    this.inquiries.set(inquiry._id, inquiry);
    if (isNew) onNew(inquiry);
  }

  private see(session: string, turn: LatestTurn): void {
    // If the request fails, the mark stays, so errors need no report.
    if (turn.unusualAt && session === this.watched && document.visibilityState === "visible") api.seenTurn(turn._id).catch(() => undefined);
    const before = this.seen.get(session);
    // A running turn becomes unread when it ends, unless the page shows its session.
    const upTo = isOver(turn) || session === this.watched ? turn._id : (before ?? "0");
    if (before !== undefined && before >= upTo) return;
    this.seen.set(session, upTo);
    store(SEEN, [...this.seen].slice(-MAX_SEEN));
  }

  private async loadInquiries(): Promise<void> {
    try {
      const [pending, newer] = await this.pushTracker.track(api.pendingInquiries());
      for (const id of this.inquiries.keys()) if (!newer.has(id)) this.inquiries.delete(id);
      for (const inquiry of pending) if (!newer.has(inquiry._id)) this.inquiries.set(inquiry._id, inquiry);
    } catch (error) {
      // An older service has no inquiries.
      if (!(error instanceof ApiError && error.code === "notFound")) throw error;
    }
  }
}

function inOrder(sessions: ChatSession[]): ChatSession[] {
  return sessions.sort((a, b) => (a._id < b._id ? 1 : -1));
}
