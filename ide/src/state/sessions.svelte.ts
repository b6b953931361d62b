/** The list of sessions: what each does, whether it waits for its user, and whether there is something unread. */
import { SvelteMap } from "svelte/reactivity";

import { ApiError } from "../api/http";
import * as api from "../api/resources";
import type { ChatSession, ChatTurn, Inquiry } from "../api/types";
import type { Connection } from "../live/connection.svelte";

const SEEN = "gadget.seen";
const MOST_SEEN = 500;
const LOOKED_AT = 40; // sessions whose latest turn is asked for
const AT_ONCE = 4;

export type SessionState = "idle" | "queued" | "running" | "waiting" | "lost" | "failed";

export class SessionList {
  items = $state.raw<ChatSession[]>([]);
  nextCursor = $state<string | null>(null);
  isLoaded = $state(false);
  error = $state<string | null>(null);
  /** By session: its newest turn, as far as it is known. */
  readonly latest = new SvelteMap<string, ChatTurn>();
  /** By id: what waits for an answer. */
  readonly inquiries = new SvelteMap<string, Inquiry>();
  private readonly seen = new SvelteMap<string, string>(readSeen());
  private watched: string | null = null;
  private stops: (() => void)[] = [];

  constructor(private readonly connection: Connection) {}

  /** `told` hears of turns that end and of questions, as they come. */
  open(told: (turn: ChatTurn) => void, asked: (inquiry: Inquiry) => void): void {
    const { connection } = this;
    this.stops = [
      connection.on("sessionUpdated", ({ session }) => this.put(session)),
      connection.on("turnStatus", ({ turn }) => {
        const before = this.latest.get(turn.session);
        this.putTurn(turn);
        if (isOver(turn) && before?._id === turn._id && !isOver(before)) told(turn);
      }),
      connection.on("inquiryChanged", ({ inquiry }) => this.putInquiry(inquiry, asked)),
      connection.on("inquiryAsked", ({ inquiry }) => this.putInquiry(inquiry, asked)),
      connection.onOnline(() => void this.refresh()),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
  }

  async refresh(): Promise<void> {
    try {
      const page = await api.sessions();
      const fresh = new Set(page.items.map((session) => session._id));
      const oldest = page.items.at(-1)?._id ?? "";
      // Those beyond the first page stay as they were loaded.
      this.items = [...page.items, ...this.items.filter((s) => !fresh.has(s._id) && s._id < oldest)];
      if (!this.isLoaded || page.nextCursor === null) this.nextCursor = page.nextCursor;
      this.isLoaded = true;
      this.error = null;
      await Promise.all([this.lookAtTurns(), this.lookAtInquiries()]);
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
  }

  async more(): Promise<void> {
    if (this.nextCursor === null) return;
    const page = await api.sessions(this.nextCursor);
    for (const session of page.items) this.put(session);
    this.nextCursor = page.nextCursor;
  }

  /** Those that were put away, once they are asked for. */
  async loadArchived(): Promise<void> {
    for (const session of await api.archivedSessions()) this.put(session);
  }

  get(id: string): ChatSession | undefined {
    return this.items.find((session) => session._id === id);
  }

  put(session: ChatSession): void {
    const others = this.items.filter((known) => known._id !== session._id);
    this.items = [session, ...others].sort((a, b) => (a._id < b._id ? 1 : -1));
  }

  drop(id: string): void {
    this.items = this.items.filter((session) => session._id !== id);
    this.latest.delete(id);
  }

  /** The session that is in front: what happens in it is read. */
  watch(id: string | null): void {
    this.watched = id;
    const turn = id === null ? undefined : this.latest.get(id);
    if (turn !== undefined) this.see(turn);
  }

  stateOf(id: string): SessionState {
    const turn = this.latest.get(id);
    if (this.waitsFor(id) !== null || (turn !== undefined && !isOver(turn) && turn.inquiry !== null)) return "waiting";
    if (turn === undefined || turn.status === "finished" || turn.status === "cancelled") return "idle";
    if (turn.status === "error") return this.isUnread(id) ? "failed" : "idle";
    if (turn.waiting === "droneLost") return "lost";
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

  /** When something last happened in it, as far as it is known. */
  activeAt(session: ChatSession): string {
    return this.latest.get(session._id)?.createdAt ?? session.createdAt;
  }

  private putTurn(turn: ChatTurn): void {
    const known = this.latest.get(turn.session);
    if (known !== undefined && known._id > turn._id) return;
    // One that came after those that wait in line is shown in their place once it runs.
    if (known !== undefined && !isOver(known) && known._id < turn._id && turn.status === "queued") return;
    this.latest.set(turn.session, turn);
    if (this.seen.get(turn.session) === undefined || turn.session === this.watched) this.see(turn);
    if (isOver(turn)) {
      for (const [id, inquiry] of this.inquiries) if (inquiry.turn === turn._id) this.inquiries.delete(id);
    }
  }

  private putInquiry(inquiry: Inquiry, asked: (inquiry: Inquiry) => void): void {
    if (inquiry.status !== "pending") {
      this.inquiries.delete(inquiry._id);
      return;
    }
    const isNew = !this.inquiries.has(inquiry._id);
    this.inquiries.set(inquiry._id, inquiry);
    if (isNew) asked(inquiry);
  }

  private see(turn: ChatTurn): void {
    const before = this.seen.get(turn.session);
    // What runs now is unread when it ends, unless it is watched then.
    const upTo = isOver(turn) || turn.session === this.watched ? turn._id : (before ?? "0");
    if (before !== undefined && before >= upTo) return;
    this.seen.set(turn.session, upTo);
    writeSeen([...this.seen]);
  }

  private async lookAtTurns(): Promise<void> {
    const waiting = this.items.filter((session) => session.archivedAt === null).slice(0, LOOKED_AT);
    const one = async (): Promise<void> => {
      for (let session = waiting.shift(); session !== undefined; session = waiting.shift()) {
        const page = await api.turns(session._id, 1);
        if (page.items[0] !== undefined) this.putTurn(page.items[0]);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
  }

  private async lookAtInquiries(): Promise<void> {
    try {
      const pending = await api.pendingInquiries();
      this.inquiries.clear();
      for (const inquiry of pending) this.inquiries.set(inquiry._id, inquiry);
    } catch (error) {
      // An older service asks nothing.
      if (!(error instanceof ApiError && error.code === "notFound")) throw error;
    }
  }
}

function isOver(turn: ChatTurn): boolean {
  return turn.status === "finished" || turn.status === "error" || turn.status === "cancelled";
}

function readSeen(): [string, string][] {
  try {
    return JSON.parse(localStorage.getItem(SEEN) ?? "[]") as [string, string][];
  } catch {
    return [];
  }
}

function writeSeen(seen: [string, string][]): void {
  try {
    localStorage.setItem(SEEN, JSON.stringify(seen.slice(-MOST_SEEN)));
  } catch {
    // Without room in the browser, marks last as long as the page.
  }
}
