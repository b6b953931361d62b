import { expect, test } from "vitest";

import type { ChatTurn, Inquiry, TurnEvent } from "../src/api/types";
import { type Item, ToolItem, TurnView, ModelTextItem } from "../src/conversation/turn.svelte";

const STATS = {
  ...{ stepCount: 0, toolCallCount: 0, inputTokens: 0, cachedInputTokens: 0, thinkingTokenCount: 0 },
  ...{ responseTokens: 0, cost: null, durationMs: 0, durationLabel: "pending" },
};

function turn(fields: Partial<ChatTurn> = {}): TurnView {
  const doc = { _id: "t1", session: "s1", status: "processing", epoch: 1, lastSeq: 0, steers: [], stats: STATS, error: null };
  return new TurnView({ ...doc, ...fields } as unknown as ChatTurn);
}

let seq = 0;
const event = (type: string, fields: object = {}) =>
  ({ type, turnId: "t1", chatSessionId: "s1", epoch: 1, seq: ++seq, at: "2026-11-21T08:00:00Z", ...fields }) as TurnEvent;
const step = (content: string, thinking = "") =>
  event("step", { index: 1, message: { thinking, content, toolCalls: [] }, usage: {}, finishReason: "stop", model: "m" });
const call = (type: string, fields: object = {}) => event(type, { callId: "c1", name: "shell", params: { command: "ls" }, ...fields });

const shown = (items: Item[]) =>
  items.map((item) => (item instanceof ModelTextItem ? `${item.kind}: ${item.text.text}` : item.kind));

test("deltas become one text, and the complete text of the step does not change it", () => {
  const view = turn();
  for (const piece of ["Hel", "lo."]) view.apply(event("response", { content: piece }));
  const before = view.items[0];
  view.apply(step("Hello."));
  expect(shown(view.items)).toEqual(["text: Hello.", "step"]);
  expect(view.items[0]).toBe(before);
  expect((before as ModelTextItem).text.isDone).toBe(true);
});

test("stored events give the same view as the stream", () => {
  const live = turn();
  live.apply(event("thinking", { content: "Hm." }));
  live.apply(event("response", { content: "Yes." }));
  live.apply(step("Yes.", "Hm."));
  const stored = turn({ status: "finished" });
  stored.load([step("Yes.", "Hm.")]);
  expect(shown(stored.items)).toEqual(shown(live.items));
  expect(stored.source).toBe("stored");
});

test("the text of a step replaces its deltas", () => {
  const view = turn();
  view.apply(event("response", { content: "Half of" }));
  view.apply(step("Half of it was lost."));
  expect(shown(view.items)).toEqual(["text: Half of it was lost.", "step"]);
});

test("a replaced text has new blocks, a continued text keeps its blocks", () => {
  const blocks = (content: string) => {
    const view = turn();
    view.apply(event("response", { content: "One.\n\nTwo.\n\nThree" }));
    const item = view.items[0] as ModelTextItem;
    const before = item.text.frozen;
    view.apply(step(content));
    return [before, item.text.frozen] as const;
  };
  const [before, after] = blocks("One.\n\nTwo.\n\nThree.\n\nFour.");
  expect(after.slice(0, 2)).toEqual(before);
  expect(after).toHaveLength(4);
  const [old, other] = blocks("Other.");
  expect(other.map((block) => block.source)).toEqual(["Other."]);
  expect(old.map((block) => block.id)).not.toContain(other[0]!.id);
});

test("events after the final status are shown, too", () => {
  const view = turn();
  view.apply(event("response", { content: "Half" }));
  view.update({ ...view.doc, status: "finished", lastSeq: 99 });
  view.apply(event("response", { content: " of it." }));
  view.apply(step("Half of it.\n\nAnd the rest."));
  const item = view.items[0] as ModelTextItem;
  expect(item.text.frozen.map((block) => block.source.trim()).join(" ")).toBe("Half of it. And the rest.");
  expect(item.text.tail.source).toBe("");
});

test("a tool has one card, and its state is unknown if it runs at the end of the turn", () => {
  const view = turn();
  view.apply(call("toolStarted"));
  const tool = view.items[0] as ToolItem;
  view.apply(event("toolOutput", { callId: "c1", content: "a\n" }));
  expect([tool.state, tool.output]).toEqual(["running", "a\n"]);
  view.apply(call("toolCall", { response: "a\n", isError: true, durationMs: 5 }));
  expect(tool.state).toBe("failed");
  view.apply(event("toolStarted", { callId: "c2", name: "shell", params: {} }));
  view.apply(event("workOrderComplete", { success: false, message: "", status: "cancelled", stats: STATS }));
  expect((view.items[1] as ToolItem).state).toBe("unknown");
  expect(view.isOver).toBe(true);
  expect(view.items).toHaveLength(2);
});

test("events of a later epoch replace those with the same numbers", () => {
  const view = turn();
  seq = 0;
  view.apply(event("response", { content: "One. " }));
  view.apply(event("response", { content: "Two. " }));
  view.rewind(2);
  view.apply(event("response", { content: "Other.", seq: 2, epoch: 2 }));
  expect(shown(view.items)).toEqual(["text: One. Other."]);
});

test("changed files are counted by path, and checkpoints override tool calls", () => {
  const view = turn();
  const edit = { name: "edit", params: { path: "a.py", old_text: "1\n", new_text: "1\n2\n" }, response: "", isError: false, durationMs: 1 };
  view.apply(call("toolCall", { ...edit, callId: "e1" }));
  view.apply(call("toolCall", { ...edit, callId: "e2" }));
  view.apply(call("toolCall", { ...edit, callId: "e3", isError: true }));
  expect(view.changed).toEqual([{ path: "a.py", status: "modified", added: 2, removed: 0 }]);
  view.apply(event("checkpoint", { checkpoint: { files: [{ path: "b.py", status: "added", added: 9 }] } }));
  expect(view.changed).toEqual([{ path: "b.py", status: "added", added: 9, removed: null }]);
});

test("an older document of the turn is ignored", () => {
  const view = turn({ status: "finished", lastSeq: 9, epoch: 2 });
  view.update({ ...view.doc, status: "processing", lastSeq: 3, epoch: 2 });
  expect(view.doc.status).toBe("finished");
  view.update({ ...view.doc, reverted: true });
  expect(view.doc.reverted).toBe(true);
});

test("a question is shown until it is answered, also if the drone left out default fields", () => {
  const view = turn();
  const inquiry = { _id: "i1", turn: "t1", session: "s1", kind: "approval", title: "May I?", default: {}, choices: [] };
  view.apply(event("inquiryAsked", { inquiry }));
  expect(view.inquiry("i1")!.inquiry.status).toBe("pending");
  view.apply(event("inquiryAnswered", { answer: { inquiryId: "i1", status: "answered", answer: { choice: "once" } } }));
  expect(view.inquiry("i1")!.inquiry).toMatchObject({ status: "answered", answer: { choice: "once" } });
});

test("a question stands where its event is, also if it was pushed earlier", () => {
  const view = turn();
  const inquiry = { _id: "i1", turn: "t1", session: "s1", kind: "approval", title: "May I?", default: {}, choices: [] };
  view.apply(event("thinking", { content: "May I?" }));
  view.putInquiry({ ...inquiry, status: "pending" } as unknown as Inquiry);
  view.apply(step("I must ask."));
  view.putInquiry({ ...inquiry, status: "answered", answer: { choice: "once" } } as unknown as Inquiry);
  view.apply(event("inquiryAsked", { inquiry }));
  view.apply(event("notice", { level: "info", code: "x", message: "On it goes." }));
  expect(shown(view.items)).toEqual(["thinking: May I?", "text: I must ask.", "step", "inquiry", "notice"]);
  expect(view.inquiry("i1")!.inquiry.status).toBe("answered");
});

test("a question of a finished turn is withdrawn", () => {
  const view = turn();
  const inquiry = { _id: "i1", turn: "t1", session: "s1", kind: "approval", title: "May I?", default: {}, choices: [] };
  view.load([event("inquiryAsked", { inquiry })]);
  expect(view.inquiry("i1")!.inquiry.status).toBe("withdrawn");
});
