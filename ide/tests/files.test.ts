import { beforeEach, expect, test } from "vitest";

import type { FilesApi, ReadFile } from "../src/api/files";
import { ApiError } from "../src/api/http";
import type { Diff, FileEntry } from "../src/api/types";
import { decode, difference, encode, longestLine } from "../src/files/content";
import { type FileDraft, FileDrafts, type Shelf } from "../src/files/drafts";
import { OpenFile } from "../src/files/file.svelte";
import { Files } from "../src/files/files.svelte";
import { merge } from "../src/files/merge";
import { changedRows, keyIn } from "../src/files/rows";
import { Tree } from "../src/files/tree.svelte";
import { isReference, parseReference } from "../src/workbench/panels.svelte";
import { recall, remember } from "../src/workbench/memory";

const bytesOf = (text: string) => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
const textOf = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
const wait = (ms = 0) => new Promise((resolve) => setTimeout(resolve, ms));

/** A disk in memory that implements the contract. */
class Disk implements FilesApi {
  readonly files = new Map<string, { bytes: Uint8Array<ArrayBuffer>; version: string }>();
  isAway = false;
  isBusy = false;
  listed: string[] = [];
  private versions = 0;

  put(path: string, text: string | Uint8Array<ArrayBuffer>): void {
    const bytes = typeof text === "string" ? bytesOf(text) : text;
    this.files.set(path, { bytes, version: `v${++this.versions}` });
  }

  at(path: string): string {
    return textOf(this.files.get(path)!.bytes);
  }

  async list(path: string) {
    this.check();
    this.listed.push(path);
    const prefix = path === "" ? "" : `${path}/`;
    const inside = [...this.files.keys()].filter((one) => one.startsWith(prefix)).map((one) => one.slice(prefix.length));
    const directories = [...new Set(inside.filter((one) => one.includes("/")).map((one) => one.split("/")[0]!))].sort();
    const entry = (name: string, isDirectory: boolean): FileEntry => {
      const kind = isDirectory ? "directory" : "file";
      return { name, path: prefix + name, kind, isDirectory, isIgnored: false, sizeBytes: null };
    };
    const names = inside.filter((one) => !one.includes("/")).sort();
    return { path, entries: [...directories.map((one) => entry(one, true)), ...names.map((one) => entry(one, false))], truncated: false };
  }

  async find() {
    return { paths: [...this.files.keys()], truncated: false };
  }

  async read(path: string, known?: string): Promise<ReadFile | null> {
    this.check();
    const file = this.files.get(path);
    if (file === undefined) throw new ApiError("notFound", "There is no such file.", 404);
    if (file.version === known) return null;
    const isText = decode(file.bytes) !== null;
    return { version: file.version, mediaType: isText ? "text/plain" : "application/octet-stream", sizeBytes: file.bytes.length, bytes: isText ? file.bytes : null };
  }

  async save(path: string, bytes: Uint8Array<ArrayBuffer>, version: string | null) {
    this.check();
    if (this.isBusy) throw new ApiError("workspaceBusy", "The agent works.", 409);
    const file = this.files.get(path);
    if (version === null && file !== undefined) throw new ApiError("alreadyExists", "It is there.", 409);
    if (version !== null && file === undefined) throw new ApiError("notFound", "It is gone.", 404);
    if (version !== null && file!.version !== version) throw new ApiError("fileChanged", "It changed.", 409);
    this.put(path, bytes);
    return { path, version: this.files.get(path)!.version, sizeBytes: bytes.length };
  }

  async rename(path: string, to: string) {
    this.files.set(to, this.files.get(path)!);
    this.files.delete(path);
  }

  async remove(path: string, { version }: { version?: string; recursive?: boolean }) {
    if (version !== undefined && this.files.get(path)?.version !== version) throw new ApiError("fileChanged", "It changed.", 409);
    this.files.delete(path);
    return { path, fileCount: 1 };
  }

  private check(): void {
    if (this.isAway) throw new ApiError("droneOffline", "The drone is away.", 503);
  }
}

class Memory implements Shelf {
  readonly kept = new Map<string, FileDraft>();
  isFull = false;
  async all() {
    return [...this.kept.values()];
  }
  async get(session: string, path: string) {
    return this.kept.get(`${session} ${path}`) ?? null;
  }
  async put(draft: FileDraft) {
    if (this.isFull) throw new Error("full");
    this.kept.set(`${draft.session} ${draft.path}`, draft);
  }
  async remove(session: string, path: string) {
    this.kept.delete(`${session} ${path}`);
  }
}

let disk: Disk;
let shelf: Memory;

beforeEach(() => {
  disk = new Disk();
  shelf = new Memory();
  const kept = new Map<string, string>();
  globalThis.localStorage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) } as Storage;
});

async function opened(path = "a.txt"): Promise<OpenFile> {
  const file = new OpenFile("s1", path, disk, new FileDrafts(shelf));
  await file.load();
  return file;
}

/** Does what the editor does. */
function type(file: OpenFile, text: string): void {
  const surface = { now: text, text: () => surface.now, replace: (now: string) => (surface.now = now) };
  file.surface = surface;
  file.edited(text === file.base?.content.text);
}

// Bytes and text

test.each(["a\nb\n", "a\r\nb\r\n", "\ufeffa\r\nb", "a\nb\r\nc\rd\n", "", "\n", "\r\n", "\ufeff", "no end", "a\r\rb\n"])(
  "%j is written as it was read",
  (text) => {
    expect(textOf(encode(decode(bytesOf(text))!))).toBe(text);
  },
);

test("new lines get the line ends of the file, and mixed line ends stay", () => {
  const crlf = decode(bytesOf("a\r\nb\r\n"))!;
  expect(crlf).toEqual({ text: "a\nb\n", ending: "\r\n", hasBom: false });
  expect(textOf(encode({ ...crlf, text: "a\nnew\nb\n" }))).toBe("a\r\nnew\r\nb\r\n");
  expect(decode(bytesOf("a\r\nb\n"))!).toEqual({ text: "a\r\nb\n", ending: "\n", hasBom: false });
});

test("bytes that are not UTF-8 or contain NUL are not text", () => {
  expect(decode(new Uint8Array([0xff, 0xfe, 0x41]))).toBe(null);
  expect(decode(bytesOf("a\0b"))).toBe(null);
});

test("the difference is one minimal range", () => {
  expect(difference("abcdef", "abXdef")).toEqual({ from: 2, to: 3, insert: "X" });
  expect(difference("aaa", "aaaa")).toEqual({ from: 3, to: 3, insert: "a" });
  expect(difference("same", "same")).toEqual({ from: 4, to: 4, insert: "" });
  expect(longestLine("ab\nabcd\n\nx")).toBe(4);
});

// Merging

test("changes of different lines are merged", () => {
  const merged = merge("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\nsix\n");
  expect(merged).toEqual({ mine: "one\n2\n3\n4\nfive\nsix\n", theirs: "one\n2\n3\n4\nfive\nsix\n", conflicts: 0 });
});

test("changes of the same lines are a conflict, and both texts have all other changes", () => {
  const merged = merge("1\n2\n3\n4\n5\n", "one\n2\nMINE\n4\n5\n", "1\n2\nTHEIRS\n4\nfive\n");
  expect(merged).toEqual({ mine: "one\n2\nMINE\n4\nfive\n", theirs: "one\n2\nTHEIRS\n4\nfive\n", conflicts: 1 });
});

test("equal changes and one-sided changes are not conflicts", () => {
  expect(merge("a\nb\n", "a\nX\n", "a\nX\n").conflicts).toBe(0);
  expect(merge("a\n", "a\n", "b\n")).toEqual({ mine: "b\n", theirs: "b\n", conflicts: 0 });
  expect(merge("a\n", "b\n", "a\n")).toEqual({ mine: "b\n", theirs: "b\n", conflicts: 0 });
  expect(merge("a\nb\nc\nd\n", "a\nX\nc\nd\nmine\n", "a\nX\nc\nd\n")).toMatchObject({ mine: "a\nX\nc\nd\nmine\n", conflicts: 0 });
});

test("the end of the last line is merged like any other", () => {
  expect(merge("a\nb", "a\nb\n", "A\nb")).toMatchObject({ mine: "A\nb\n", conflicts: 0 });
  expect(merge("", "mine\n", "theirs\n")).toMatchObject({ mine: "mine\n", theirs: "theirs\n", conflicts: 1 });
});

test("every merge of random changes keeps the lines of both sides", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 200; round++) {
    const base = Array.from({ length: 12 }, (_, n) => `line ${n % 5}`);
    const changed = (who: string) => {
      const lines = [...base];
      for (let n = 0; n < 2; n++) lines.splice(random(lines.length), random(2), `${who} ${round} ${n}`);
      return lines;
    };
    const [mine, theirs] = [changed("mine"), changed("theirs")];
    const merged = merge(base.join("\n"), mine.join("\n"), theirs.join("\n"));
    const has = (text: string, lines: string[], who: string) =>
      lines.filter((line) => line.startsWith(who)).every((line) => text.split("\n").includes(line));
    expect(has(merged.mine, mine, "mine")).toBe(true);
    expect(has(merged.theirs, theirs, "theirs")).toBe(true);
    if (merged.conflicts === 0) expect(merged.mine).toBe(merged.theirs);
  }
});

test("a hundred thousand lines, and thousands of repeated lines, are merged in seconds", () => {
  const long = (who: string) => Array.from({ length: 100_000 }, (_, n) => `${who} ${n}`).join("\n");
  expect(merge(long("a"), long("b"), long("c")).conflicts).toBe(1);
  const base = long("a");
  const theirs = base.replace("a 5\n", "A 5\n");
  expect(merge(base, `${base}\nmine`, theirs)).toEqual({ mine: `${theirs}\nmine`, theirs: `${theirs}\nmine`, conflicts: 0 });
  const blanks = Array.from({ length: 20_000 }, (_, n) => (n % 2 ? "" : `line ${n}`)).join("\n");
  const merged = merge(blanks, `mine\n${blanks}`, blanks.replace("line 19998", "theirs"));
  expect(merged).toMatchObject({ mine: `mine\n${blanks.replace("line 19998", "theirs")}`, conflicts: 0 });
  const same = "x\n".repeat(5000);
  expect(merge(same, `mine\n${same}`, `${same}theirs\n`)).toMatchObject({ mine: `mine\n${same}`, conflicts: 1 });
});

// One file

test("edits are saved over the version that was edited", async () => {
  disk.put("a.txt", "one\r\ntwo\r\n");
  const file = await opened();
  type(file, "one\n2\n");
  expect(file.isDirty).toBe(true);
  expect(await file.save()).toBe(true);
  expect([disk.at("a.txt"), file.isDirty, file.disk, file.error]).toEqual(["one\r\n2\r\n", false, null, null]);
  await file.keepNow();
  expect(shelf.kept.size).toBe(0);
});

test("a save after a change on disk merges, reports it and saves", async () => {
  disk.put("a.txt", "1\n2\n3\n");
  const file = await opened();
  type(file, "1\n2\nthree\n");
  disk.put("a.txt", "one\n2\n3\n");
  expect(await file.save()).toBe(true);
  expect(disk.at("a.txt")).toBe("one\n2\nthree\n");
  expect(file.text).toBe("one\n2\nthree\n");
  expect(file.note).not.toBe(null);
});

test("a conflict writes nothing, and its resolution replaces the version that was shown", async () => {
  disk.put("a.txt", "1\n2\n");
  const file = await opened();
  type(file, "1\nmine\n");
  disk.put("a.txt", "1\ntheirs\n");
  expect(await file.save()).toBe(false);
  expect([disk.at("a.txt"), file.text]).toEqual(["1\ntheirs\n", "1\nmine\n"]);
  expect(file.conflict).toMatchObject({ mine: "1\nmine\n", theirs: "1\ntheirs\n", count: 1 });
  expect(await file.resolve("1\ntheirs, and mine\n")).toBe(true);
  expect([disk.at("a.txt"), file.isDirty, file.conflict]).toEqual(["1\ntheirs, and mine\n", false, null]);
});

test("a further change on disk during a conflict is a new conflict", async () => {
  disk.put("a.txt", "1\n2\n");
  const file = await opened();
  type(file, "1\nmine\n");
  disk.put("a.txt", "1\ntheirs\n");
  await file.save();
  disk.put("a.txt", "1\nother\n");
  expect(await file.resolve("1\ndecided\n")).toBe(false);
  expect([disk.at("a.txt"), file.conflict?.mine, file.conflict?.theirs]).toEqual(["1\nother\n", "1\ndecided\n", "1\nother\n"]);
});

test("the text follows the disk without edits, and reports a change with edits", async () => {
  disk.put("a.txt", "1\n");
  const file = await opened();
  disk.put("a.txt", "2\n");
  await file.look();
  expect([file.text, file.isDirty, file.disk]).toEqual(["2\n", false, null]);
  type(file, "mine\n");
  disk.put("a.txt", "3\n");
  await file.look();
  expect(file.text).toBe("mine\n");
  expect(file.disk).toMatchObject({ content: { text: "3\n" } });
  file.reload();
  expect([file.text, file.isDirty, file.disk]).toEqual(["3\n", false, null]);
});

test("overwriting replaces the version that was shown, and no later one", async () => {
  disk.put("a.txt", "1\n");
  const file = await opened();
  type(file, "mine\n");
  disk.put("a.txt", "2\n");
  await file.look();
  disk.put("a.txt", "3\n");
  expect(await file.overwrite()).toBe(false);
  expect(disk.at("a.txt")).toBe("3\n");
  expect(file.conflict).not.toBe(null);
});

test("a file deleted on disk keeps its text and can be saved again", async () => {
  disk.put("a.txt", "1\n");
  const file = await opened();
  type(file, "mine\n");
  disk.files.delete("a.txt");
  expect(await file.save()).toBe(false);
  expect(file.disk).toBe("gone");
  expect(await file.overwrite()).toBe(true);
  expect([disk.at("a.txt"), file.disk]).toEqual(["mine\n", null]);
});

test("an offline drone or a working agent loses no edits", async () => {
  disk.put("a.txt", "1\n");
  const file = await opened();
  type(file, "mine\n");
  disk.isBusy = true;
  expect(await file.save()).toBe(false);
  expect(file.error).toContain("The agent works.");
  disk.isAway = true;
  expect(await file.save()).toBe(false);
  await file.keepNow();
  const later = await opened();
  expect([later.state, later.text, later.isDirty, later.error]).toEqual(["text", "mine\n", true, expect.stringContaining("away")]);
  disk.isAway = disk.isBusy = false;
  expect(await later.save()).toBe(true);
  expect(disk.at("a.txt")).toBe("mine\n");
});

test("a draft is restored after a reload, with its base version for a merge", async () => {
  disk.put("a.txt", "1\n2\n3\n");
  const file = await opened();
  type(file, "1\n2\nmine\n");
  await file.keepNow();
  disk.put("a.txt", "one\n2\n3\n");
  const later = await opened();
  expect([later.text, later.isDirty, later.restoredAt]).toEqual(["1\n2\nmine\n", true, expect.any(Number)]);
  expect(later.disk).toMatchObject({ content: { text: "one\n2\n3\n" } });
  expect(await later.mergeDisk()).toBe(true);
  expect(disk.at("a.txt")).toBe("one\n2\nmine\n");
  await later.keepNow();
  expect(shelf.kept.size).toBe(0);
});

test("a browser without storage is reported, and editing goes on", async () => {
  disk.put("a.txt", "1\n");
  const file = await opened();
  shelf.isFull = true;
  type(file, "mine\n");
  await file.keepNow();
  expect([file.isKept, file.text]).toEqual([false, "mine\n"]);
});

test("edits during a save are not saved and not lost", async () => {
  disk.put("a.txt", "1\n");
  const file = await opened();
  type(file, "first\n");
  const saving = file.save();
  await wait();
  type(file, "first, second\n");
  await saving;
  expect([disk.at("a.txt").startsWith("first"), file.text]).toEqual([true, "first, second\n"]);
  await file.save();
  expect([disk.at("a.txt"), file.isDirty]).toEqual(["first, second\n", false]);
});

test("bytes that are not text are not shown", async () => {
  disk.put("a.bin", new Uint8Array([0, 1, 2, 255]) as Uint8Array<ArrayBuffer>);
  expect((await opened("a.bin")).state).toBe("unreadable");
  expect((await opened("nothing")).state).toBe("failed");
});

// Drafts

test("the oldest drafts are deleted if there is no room", async () => {
  const drafts = new FileDrafts(shelf, { drafts: 3, characters: 100 });
  const draft = (path: string, at: number, text = "x") => ({ session: "s1", path, text, base: null, at });
  for (let n = 0; n < 5; n++) await drafts.keep(draft(`f${n}`, n));
  expect(await drafts.paths("s1")).toEqual(["f4", "f3", "f2"]);
  await drafts.keep(draft("large", 9, "x".repeat(200)));
  expect(await drafts.paths("s1")).toEqual(["large"]);
});

// The tree

test("keys move through the tree, and a directory is listed once", async () => {
  for (const path of ["src/a.py", "src/deep/b.py", "README.md", "setup.py"]) disk.put(path, "");
  const tree = new Tree(disk);
  await tree.refresh();
  const names = () => tree.rows.map((row) => `${"  ".repeat(row.level - 1)}${row.entry.name}`);
  expect(names()).toEqual(["src", "README.md", "setup.py"]);
  tree.press("ArrowDown");
  expect(tree.active).toBe("src");
  tree.press("ArrowRight");
  await wait();
  expect(names()).toEqual(["src", "  deep", "  a.py", "README.md", "setup.py"]);
  expect(tree.rows[1]).toMatchObject({ level: 2, position: 1, siblings: 2 });
  tree.press("ArrowRight");
  expect(tree.active).toBe("src/deep");
  tree.press("ArrowLeft");
  expect(tree.active).toBe("src");
  tree.press("End");
  expect(tree.active).toBe("setup.py");
  tree.press("Home");
  tree.press("ArrowLeft");
  expect(names()).toEqual(["src", "README.md", "setup.py"]);
  tree.press("ArrowRight");
  expect(disk.listed).toEqual(["", "src"]);
});

test("letters find the matching name, a repeated letter the next one", async () => {
  for (const path of ["alpha", "beta", "bench", "gamma"]) disk.put(path, "");
  const tree = new Tree(disk);
  await tree.refresh();
  let now = 1000;
  const typed = (keys: string) => [...keys].map((key) => (tree.press(key, (now += 10)), tree.active)).at(-1);
  expect(typed("b")).toBe("bench");
  expect(typed("b")).toBe("beta");
  now += 5000;
  expect(typed("ga")).toBe("gamma");
  now += 5000;
  expect(typed("bet")).toBe("beta");
  expect(tree.press("Escape")).toBe(false);
});

test("changed directories are listed again, unopened ones are not", async () => {
  for (const path of ["src/deep/b.py", "other/c.py"]) disk.put(path, "");
  const tree = new Tree(disk);
  await tree.refresh();
  await tree.reveal("src/deep/b.py");
  disk.put("src/deep/new.py", "");
  disk.listed = [];
  await tree.refreshAround(["src/deep/new.py", "other/c.py"]);
  expect(disk.listed.toSorted()).toEqual(["", "src", "src/deep"]);
  expect(tree.rows.some((row) => row.entry.name === "new.py")).toBe(true);
});

// All parts together

const nothingChanged = async (): Promise<Diff> => ({ files: [], fileCount: 0, truncated: false });

test("a tab opens once, closes to its neighbour, is remembered and follows a rename", async () => {
  for (const path of ["a", "b", "c"]) disk.put(path, path);
  const files = new Files("s1", disk, new FileDrafts(shelf), nothingChanged);
  for (const path of ["a", "b", "c", "b"]) files.open(path);
  expect([files.tabs.map((tab) => tab.path), files.active?.path]).toEqual([["a", "b", "c"], "b"]);
  expect(files.recent).toEqual(["b", "c", "a"]);
  await files.close(files.active!);
  expect(files.active?.path).toBe("c");
  files.step(1);
  expect(files.active?.path).toBe("a");
  await files.rename("a", "z");
  const later = new Files("s1", disk, new FileDrafts(shelf), nothingChanged);
  await later.restore();
  expect([later.tabs.map((tab) => tab.path), later.active?.path]).toEqual([["z", "c"], "z"]);
});

test("a project that cannot be listed shows the reason, and is listed later", async () => {
  disk.put("a", "");
  disk.isAway = true;
  const files = new Files("s1", disk, new FileDrafts(shelf), nothingChanged);
  await files.refresh();
  expect(files.problem).toEqual({ code: "droneOffline", message: "The drone is away." });
  disk.isAway = false;
  await files.refresh();
  expect([files.problem, files.tree.rows.length]).toEqual([null, 1]);
});

test("a file is deleted in the version that was listed, with its tab and draft", async () => {
  disk.put("a", "1");
  const files = new Files("s1", disk, new FileDrafts(shelf), nothingChanged);
  const file = files.open("a");
  await file.look();
  disk.put("a", "2");
  await expect(files.remove({ path: "a", kind: "file" })).rejects.toMatchObject({ code: "fileChanged" });
  await file.look();
  await files.remove({ path: "a", kind: "file" });
  expect([files.tabs, disk.files.size]).toEqual([[], 0]);
});

test("changed files are a list by path, with keys", () => {
  const rows = changedRows(new Map([["src/b.py", "modified"], ["a.py", "added"]]));
  expect(rows.map((row) => row.entry.path)).toEqual(["a.py", "src/b.py"]);
  expect([keyIn(rows, 0, "ArrowDown"), keyIn(rows, 1, "ArrowDown"), keyIn(rows, 0, "b"), keyIn(rows, 0, "Escape")]).toEqual([1, 1, 1, null]);
});

test("references name a line of a file, and other text does not", () => {
  expect(parseReference("./src/a.py:12")).toEqual({ path: "src/a.py", place: { line: 12 } });
  expect(parseReference("src/a.py:12:5").place).toEqual({ line: 12 });
  expect(parseReference("src/a.py")).toEqual({ path: "src/a.py", place: null });
  expect(["src/a.py:1", "a.test.ts:10-12"].map(isReference)).toEqual([true, true]);
  expect(["12:30", "a.py", "http://x.y:80", "localhost:80", "key: value.x:1"].map(isReference)).toEqual([false, false, false, false, false]);
});

test("open panels and files are stored by session, and the oldest sessions are deleted", () => {
  for (let n = 0; n < 60; n++) remember(`s${n}`, { isFilesOpen: true });
  remember("s59", { tabs: ["a"] });
  expect(recall("s59")).toMatchObject({ isFilesOpen: true, tabs: ["a"] });
  expect(recall("s0").isFilesOpen).toBe(false);
});
