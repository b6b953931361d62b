import { beforeEach, expect, test, vi } from "vitest";

import type { ChatSession, DroneRegistration, Inquiry, Project, Rule, User } from "../src/api/types";
import { SessionView } from "../src/conversation/session.svelte";
import { ModelTextItem } from "../src/conversation/turn.svelte";
import type { Connection } from "../src/live/connection.svelte";
import { App } from "../src/state/app.svelte";
import { Fleet } from "../src/state/fleet.svelte";
import { SessionList } from "../src/state/sessions.svelte";

/** A service whose replies and pushes the test controls. */
class Service {
  /** The open requests, oldest first: `METHOD path` or the event name, and the body. */
  readonly asked: { what: string; body: unknown; answer: (reply: unknown, status?: number) => void }[] = [];
  private readonly listeners = new Map<string, ((payload: unknown) => void)[]>();
  private readonly anyListeners: ((name: string, payload: unknown) => void)[] = [];

  readonly connection = {
    on: (name: string, listener: (payload: unknown) => void) => {
      this.listeners.set(name, [...(this.listeners.get(name) ?? []), listener]);
      return () => {};
    },
    onAny: (listener: (name: string, payload: unknown) => void) => {
      this.anyListeners.push(listener);
      return () => {};
    },
    onOnline: (listener: () => void) => {
      listener();
      return () => {};
    },
    call: (name: string, body: unknown) => new Promise((answer) => this.asked.push({ what: name, body, answer })),
  } as unknown as Connection;

  readonly fetch = (url: string, { method, body }: RequestInit) =>
    new Promise((answer) => {
      const reply = (given: unknown, status = 200) => answer(new Response(JSON.stringify(given), { status }));
      const path = url.replace("/api/v1", "").replace(/\?.*/, "");
      this.asked.push({ what: `${method} ${path}`, body: JSON.parse((body as string | null) ?? "null"), answer: reply });
    });

  push(name: string, payload: unknown): void {
    for (const listener of this.anyListeners) listener(name, payload);
    for (const listener of this.listeners.get(name) ?? []) listener(payload);
  }

  /** Waits for a request of this kind and answers the oldest one. */
  async answer(what: string, reply: unknown, status = 200): Promise<unknown> {
    await vi.waitFor(() => expect(this.asked.map((one) => one.what)).toContain(what));
    const [found] = this.asked.splice(this.asked.findIndex((one) => one.what === what), 1);
    found!.answer(reply, status);
    await settled();
    return found!.body;
  }

  async answerAll(...items: object[]): Promise<void> {
    for (const { what } of [...this.asked]) await this.answer(what, page(...items));
  }
}

const settled = () => new Promise((done) => setTimeout(done, 5));
const page = (...items: object[]) => ({ items, nextCursor: null });
const inquiry = (id: string, status = "pending") => ({ _id: id, session: "s1", turn: "t1", status }) as Inquiry;
const drone = (id: string, fields: object = {}) => ({ _id: id, workspaceId: "w1", turn: null, ...fields }) as DroneRegistration;
const session = (id: string, name: string) => ({ _id: id, name, workspaceId: "w1", latestTurn: null }) as unknown as ChatSession;

let service: Service;

beforeEach(() => {
  service = new Service();
  vi.stubGlobal("fetch", service.fetch);
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} });
});

test("pushes during the request of the questions win over its reply", async () => {
  const list = new SessionList(service.connection);
  const asked: string[] = [];
  list.open(() => {}, (one) => asked.push(one._id));
  await service.answer("GET /sessions", page());
  await service.answer("GET /sessions", page());
  await vi.waitFor(() => expect(service.asked).toHaveLength(1));
  service.push("inquiryAsked", { inquiry: inquiry("new") });
  service.push("inquiryChanged", { inquiry: inquiry("answered", "answered") });
  await service.answer("GET /inquiries", page(inquiry("old"), inquiry("answered")));
  expect([...list.inquiries.keys()].sort()).toEqual(["new", "old"]);
  expect(list.waitsFor("s1")).not.toBeNull();
  expect(asked).toEqual(["new"]);
  // An inquiry that is not in the next list, and was not pushed, is removed.
  void list.refresh();
  await service.answer("GET /sessions", page());
  await service.answer("GET /sessions", page());
  await service.answer("GET /inquiries", page(inquiry("new")));
  expect([...list.inquiries.keys()]).toEqual(["new"]);
});

test("a session renamed, created or deleted during the request of the list stays so", async () => {
  const list = new SessionList(service.connection);
  list.open(() => {}, () => {});
  await service.answerAll(session("3", "gone"), session("2", "an old name"), session("1", "one"));
  void list.refresh();
  service.push("sessionUpdated", { session: session("2", "a new name") });
  service.push("sessionUpdated", { session: session("4", "made") });
  list.drop("3");
  await service.answer("GET /sessions", page(session("3", "gone"), session("2", "an old name"), session("1", "one")));
  await service.answer("GET /sessions", page());
  expect(list.items.map((one) => one.name)).toEqual(["made", "a new name", "one"]);
});

test("a drone that became busy during the request of the list is busy", async () => {
  const fleet = new Fleet(service.connection);
  fleet.open();
  service.push("droneStatus", { drone: drone("d1", { status: "busy" }) });
  await service.answerAll(drone("d1", { status: "available" }), drone("d2", { status: "offline" }));
  expect(fleet.drones.map((one) => [one._id, one.status])).toEqual([["d2", "offline"], ["d1", "busy"]]);
  void fleet.refresh();
  await service.answerAll(drone("d1", { status: "offline" }));
  expect(fleet.drones.map((one) => [one._id, one.status])).toEqual([["d1", "offline"]]);
});

test("a session's pushed lock, mode and name win over an older reply", async () => {
  const view = new SessionView("s1", service.connection);
  view.open();
  service.push("workspaceMode", { chatSessionId: "s1", mode: "agent" });
  service.push("sessionLock", { chatSessionId: "s1", lock: { droneId: "d1" } });
  service.push("sessionUpdated", { session: session("s1", "a new name") });
  const turns = Array.from({ length: 20 }, (_, n) => ({ _id: `t${n}`, session: "s1", status: "finished", formerIds: [], steers: [] }));
  const reply = { session: session("s1", "an old name"), lock: null, workspaceMode: "idle", turns };
  await service.answer("selectSession", reply);
  expect([view.workspaceMode, view.lock?.droneId, view.doc?.name]).toEqual(["agent", "d1", "a new name"]);
  expect(view.olderThan, "older turns can be asked for").toBe("t19");
});

test("an older drone status does not show an idle agent while a turn of the session runs", async () => {
  const view = new SessionView("s1", service.connection);
  view.open();
  const turn = { _id: "t1", session: "s1", status: "processing", formerIds: [], steers: [], epoch: 1, lastSeq: 0 };
  await service.answer("selectSession", { session: session("s1", "a"), lock: null, workspaceMode: "idle", turns: [turn] });
  service.push("workspaceMode", { chatSessionId: "s1", mode: "agent" });
  service.push("droneStatus", { drone: drone("d1", { turn: "t1", workspaceMode: "idle" }) });
  expect(view.workspaceMode).toBe("agent");
  service.push("droneStatus", { drone: drone("d1", { turn: null, workspaceMode: "idle" }) });
  expect(view.workspaceMode).toBe("idle");
  service.push("droneStatus", { drone: drone("d1", { turn: "of another session", workspaceMode: "agent" }) });
  expect(view.workspaceMode).toBe("agent");
});

test("an event of a newer service is ignored, and leaves no gap in the stream", async () => {
  vi.stubGlobal("document", { hidden: true });
  const view = new SessionView("s1", service.connection);
  view.open();
  const turn = { _id: "t1", session: "s1", status: "processing", formerIds: [], steers: [], epoch: 1, lastSeq: 0 };
  await service.answer("selectSession", { session: session("s1", "a"), lock: null, workspaceMode: "idle", turns: [turn] });
  const push = (type: string, seq: number) =>
    service.push(type, { type, seq, turnId: "t1", chatSessionId: "s1", epoch: 1, at: "2026-11-21T08:00:00Z", content: `${seq}.` });
  push("response", 1);
  push("somethingNew", 2);
  push("response", 3);
  expect(service.asked, "the stream is not requested again").toEqual([]);
  view.close(); // shows what waits for a frame
  expect(view.turns[0]!.items.map((item) => item instanceof ModelTextItem && item.text.text)).toEqual(["1.3."]);
});

const rule = (pattern: string) => ({ decision: "deny", capability: "execute", pattern, reason: null }) as Rule;

test("changes of a project run one after the other, each on the previous result", async () => {
  const fleet = new Fleet(service.connection);
  const project = { _id: "p1", trusted: false, rules: [] as Rule[] } as unknown as Project;
  fleet.putProject(project);
  void fleet.changeProject("p1", () => ({ trusted: true }));
  void fleet.changeProject("p1", ({ rules }) => ({ rules: [...rules, rule("a")] }));
  void fleet.changeProject("p1", ({ rules }) => ({ rules: [...rules, rule("b")] }));
  await settled();
  expect(service.asked).toHaveLength(1);
  await service.answer("PATCH /projects/p1", { ...project, trusted: true });
  await service.answer("PATCH /projects/p1", { ...project, trusted: true, rules: [rule("a")] });
  expect(await service.answer("PATCH /projects/p1", project)).toEqual({ rules: [rule("a"), rule("b")] });
});

test("a failed change of the account is reported and does not block later changes", async () => {
  const app = new App();
  const me = { _id: "u1", level: "full", rules: [] as Rule[] } as unknown as User;
  app.user = me;
  const failed = expect(app.changeMe(() => ({ level: "ask" }))).rejects.toThrow("Not now.");
  void app.changeMe(({ rules }) => ({ rules: [...rules, rule("a")] }));
  await settled();
  expect(service.asked).toHaveLength(1);
  await service.answer("PATCH /users/me", { code: "internal", detail: "Not now." }, 500);
  await failed;
  expect(await service.answer("PATCH /users/me", { ...me, rules: [rule("a")] })).toEqual({ rules: [rule("a")] });
  expect(app.user.rules).toEqual([rule("a")]);
});
