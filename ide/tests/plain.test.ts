import { expect, test } from "vitest";

import { clientName } from "../src/agent";
import { matchesKeys } from "../src/commands.svelte";
import { draftOf, keepDraft, remainingPrompt, PromptHistory, rememberPrompt } from "../src/conversation/drafts";
import { slashCommands } from "../src/conversation/slash";
import { editsOf, kindOf, targetOf, todoOf } from "../src/conversation/tools";
import { ago, age, count, duration, lastDays, usd } from "../src/format";
import { score, search } from "../src/fuzzy";
import { FrameBatch } from "../src/live/frames";
import { isWebLink } from "../src/markdown/render";
import { parse, pathOf } from "../src/router.svelte";

test("numbers are short and truncated as in the service", () => {
  expect([0, 999, 1000, 12_345, 123_456, 1_250_000].map(count)).toEqual(["0", "999", "1k", "12.3k", "123k", "1.2M"]);
  expect([850, 12_345, 59_999, 125_000, 11_220_000].map(duration)).toEqual(["850 ms", "12.3s", "59.9s", "2m 05s", "3h 07m"]);
  expect([0, 0.00123, 0.5, 12.34].map(usd)).toEqual(["$0", "$0.0012", "$0.50", "$12.3"]);
});

test("times are formatted as ages and grouped by day", () => {
  const now = new Date(2026, 10, 21, 12).getTime();
  const at = (hours: number) => new Date(now - hours * 3_600_000).toISOString();
  expect([0, 0.1, 5, 50].map((hours) => ago(at(hours), now))).toEqual(["now", "6m", "5h", "2d"]);
  expect([1, 13, 60, 400].map((hours) => age(at(hours), new Date(now)))).toEqual(["today", "yesterday", "week", "older"]);
  expect(lastDays(3, Date.UTC(2026, 2, 1))).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
});

test("a path gives its page, and an unknown path gives the home page", () => {
  for (const path of ["/", "/new", "/drones", "/s/abc"]) expect(pathOf(parse(path))).toBe(path);
  expect(parse("/nothing/here")).toEqual({ page: "home" });
  expect(parse("/s/")).toEqual({ page: "home" });
});

test("search matches letters in order and prefers the beginnings of words", () => {
  expect(search("nse", ["Unused", "New session", "Insert"], (x) => x)[0]).toBe("New session");
  expect(score("xyz", "New session")).toBeNull();
  expect(search("", [1, 2], String)).toEqual([1, 2]);
});

test("a tool call has a summary of its parameters", () => {
  expect(kindOf("shell", {})).toBe("shell");
  expect(kindOf("mcp__x", { command: "ls" })).toBe("shell");
  expect(targetOf({ pattern: "x+", path: "src" })).toBe("x+ in src");
  expect(targetOf({ command: "\nmake\ntest" })).toBe("make");
  expect(editsOf("write", { path: "a", content: "1\n2\n" })[0]!.lines).toHaveLength(2);
  expect(editsOf("multi", { path: "a", edits: [{ old_text: "1", new_text: "2" }, { path: "b", old_text: "", new_text: "x" }] }).map((e) => e.path)).toEqual(["a", "b"]);
  expect(editsOf("read", { path: "a" })).toEqual([]);
  expect(todoOf("todo", { items: [{ text: "a", status: "inProgress" }, { text: "b", status: "done" }, "junk"] })).toEqual([
    { text: "a", state: "active" },
    { text: "b", state: "done" },
  ]);
  expect(todoOf("shell", { items: [] })).toBeNull();
});

test("only web and mail links are links", () => {
  const good = ["https://example.org/a?b", "http://example.org", "mailto:ada@example.org"];
  const bad = ["javascript:alert(1)", "JAVASCRIPT:1", "data:text/html,x", "vbscript:x", "/relative", "//x", "file:///etc", ""];
  expect(good.filter(isWebLink)).toEqual(good);
  expect(bad.filter(isWebLink)).toEqual([]);
});

test("drafts are stored by session, the oldest are deleted, and a full or broken storage does no harm", () => {
  const kept = new Map<string, string>();
  const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  for (let n = 0; n < 60; n++) keepDraft(`s${n}`, `draft ${n}`, store);
  expect(draftOf("s59", store)).toBe("draft 59");
  expect(draftOf("s0", store)).toBe("");
  keepDraft("s59", "", store);
  expect(draftOf("s59", store)).toBe("");
  kept.set("gadget.drafts", "{broken");
  expect(draftOf("s1", store)).toBe("");
  const full = { getItem: () => null, setItem: () => { throw new Error("full"); } };
  keepDraft("s1", "x", full);
});

test("text typed during the send of a prompt stays, without the sent text", () => {
  expect(remainingPrompt("Go on.", "Go on.")).toBe("");
  expect(remainingPrompt("Go on.\nAnd then", "Go on.")).toBe("And then");
  expect(remainingPrompt("Something else", "Go on.")).toBe("Something else");
  expect(remainingPrompt("Behind comments alone", "")).toBe("Behind comments alone");
});

test("up and down move through the sent prompts and back to the draft", () => {
  const kept = new Map<string, string>();
  const store = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  for (const prompt of ["one", "two", "one"]) rememberPrompt(prompt, store);
  const history = new PromptHistory(store);
  expect([history.older("typed"), history.older(""), history.older("")]).toEqual(["one", "two", null]);
  expect([history.newer(), history.newer(), history.newer()]).toEqual(["one", "typed", null]);
});

test("a slash begins a command, but a prompt can begin with a path", () => {
  expect(slashCommands("/st").map((command) => command.name)).toEqual(["stop"]);
  expect(slashCommands("/etc/hosts is wrong")).toEqual([]);
  expect(slashCommands("say /stop")).toEqual([]);
});

test("all items of a frame are flushed together, in order", () => {
  const flushed: number[][] = [];
  const frames: (() => void)[] = [];
  const batch = new FrameBatch<number>((items) => flushed.push(items), (run) => frames.push(run));
  [1, 2, 3].forEach((item) => batch.push(item));
  expect([flushed, frames.length]).toEqual([[], 1]);
  frames[0]!();
  batch.push(4);
  batch.flushNow();
  frames[1]!();
  expect(flushed).toEqual([[1, 2, 3], [4]]);
});

test("keys match their commands, and letters in text fields are input", () => {
  const press = (fields: object) => ({ key: "", code: "", ctrlKey: false, metaKey: false, altKey: false, shiftKey: false, target: null, ...fields }) as KeyboardEvent;
  expect(matchesKeys(press({ key: "k", ctrlKey: true }), "Mod+K")).toBe(true);
  expect(matchesKeys(press({ key: "k" }), "Mod+K")).toBe(false);
  expect(matchesKeys(press({ key: "K", ctrlKey: true, shiftKey: true }), "Mod+K")).toBe(false);
  expect(matchesKeys(press({ key: "ø", code: "KeyO", altKey: true }), "Alt+O")).toBe(true);
  expect(matchesKeys(press({ key: "?", shiftKey: true }), "?")).toBe(true);
});

test("a client is named by its browser and system, or by its own header", () => {
  const webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
  const told = {
    [`Mozilla/5.0 (X11; Linux x86_64) ${webkit} Chrome/156.0.0.0 Safari/537.36`]: "Chrome on Linux",
    [`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/156.0 Safari/537.36 Edg/156.0`]: "Edge on Windows",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_1) AppleWebKit/605 (KHTML) Version/17.1 Safari/605": "Safari on macOS",
    "Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0": "Firefox on Android",
    "gadget-code/0.1.0 on laptop": "Terminal on laptop",
    "curl/8.5": "curl/8.5",
  };
  for (const [agent, name] of Object.entries(told)) expect(clientName(agent)).toBe(name);
  expect(clientName(null)).toBe("Unknown");
});
