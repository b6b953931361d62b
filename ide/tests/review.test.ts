import { expect, test } from "vitest";

import { insertMention, mentionAt, mentionOf } from "../src/conversation/mentions";
import { patchOf } from "../src/diff/hunks";
import { isSpaceOnly, rowsOf, type Row } from "../src/diff/rows";
import { blocksOf, linesBetween } from "../src/review/blocks";
import { Comments, MAX_COMMENTS, promptOf } from "../src/review/comments.svelte";
import { keepReviewed, keysOf, reviewedOf } from "../src/review/reviewed";

const PATCH = "@@ -3,5 +3,6 @@\n c\n-d\n-e\n+D\n+e  \n+f\n g\n h\n";
const shown = (rows: Row[]) => rows.map((row) => `${row.old?.raw.trim() ?? ""}|${row.new?.raw.trim() ?? ""}`);

function storage() {
  const kept = new Map<string, string>();
  return { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
}

test("a change is shown in one or two columns, with or without white space changes", () => {
  const { lines } = patchOf(PATCH).changes[0]!;
  const rows = (isSplit: boolean, ignoresSpace: boolean) => shown(rowsOf(lines, { isSplit, ignoresSpace }));
  expect(rows(false, false)).toEqual(["d|", "e|", "|D", "|e", "|f"]);
  expect(rows(true, false)).toEqual(["d|D", "e|e", "|f"]);
  expect(rows(false, true)).toEqual(["d|", "|D", "e|e", "|f"]);
  expect(isSpaceOnly(patchOf(PATCH).changes[0]!)).toBe(false);
  expect(isSpaceOnly(patchOf("@@ -1,2 +1 @@\n-a b\n-\n+ab\n").changes[0]!)).toBe(true);
});

test("gaps of the diff are filled from the disk, if it matches the diff", () => {
  const patch = patchOf(PATCH);
  const disk = "a\nb\nc\nD\ne  \nf\ng\nh\ni\n";
  expect(linesBetween(patch, disk.replace("g", "G"))).toBeNull();
  const between = linesBetween(patch, disk);
  const looks = { isSplit: false, ignoresSpace: false };
  const all = (opened: [number, number][], most = 100, isFolded = false) =>
    blocksOf(patch, looks, between, new Map(opened), () => isFolded, most);
  expect(all([]).blocks.map(({ kind, hidden }) => [kind, hidden])).toEqual([
    ["gap", 2],
    ["same", null],
    ["change", null],
    ["same", null],
    ["gap", 1],
  ]);
  expect(shown(all([[0, 1]]).blocks[0]!.rows)).toEqual(["a|a"]);
  expect(all([[0, 1]]).blocks[0]!.hidden).toBe(1);
  const few = all([], 3);
  expect(few.blocks.flatMap((block) => block.rows)).toHaveLength(3);
  expect(few.left).toBe(5);
  expect(all([], 100, true).blocks.flatMap((block) => block.rows)).toHaveLength(3);
});

test("a reviewed change is recognised until it changes, equal ones by order, up to a limit", () => {
  const of = (diff: string) => keysOf("a", patchOf(diff).changes);
  const two = "@@ -1,5 +1,5 @@\n-a\n+b\n x\n y\n-a\n+b\n z\n";
  expect(new Set(of(two)).size).toBe(2);
  expect(of(two)).toEqual(of(two.replace("-1,5 +1,5", "-9,5 +9,5")));
  expect(of(two.replace("+b", "+c"))[0]).not.toBe(of(two)[0]);
  const kept = storage();
  keepReviewed("s", of(two), kept);
  keepReviewed("t", ["k"], kept);
  expect([...reviewedOf("s", kept)]).toEqual(of(two));
  keepReviewed("s", Array.from({ length: 5000 }, (_, n) => `${n}`), kept);
  expect(reviewedOf("s", kept).size).toBe(1000);
  expect(reviewedOf("s", kept).has("4999")).toBe(true);
  expect([...reviewedOf("t", kept)]).toEqual(["k"]);
});

test("comments are sent with the prompt, are stored, and later ones stay", () => {
  const kept = storage();
  const comments = new Comments("s", kept);
  const about = { path: "a.py", side: "new" as const, from: 2, to: 3, lines: ["-x", "+y", " "] };
  comments.add({ ...about, text: "Why?" });
  comments.add({ ...about, side: "old", from: 7, to: 7, lines: Array(40).fill("-x"), text: "No." });
  comments.change(1, "Why y?");
  expect(new Comments("s", kept).items).toEqual(comments.items);
  expect(new Comments("t", kept).items).toEqual([]);
  const prompt = promptOf(" Mend: \n", comments.items);
  expect(prompt).toMatch(/^Mend:\n\na\.py:2-3\n> -x\n> \+y\n>\n\nWhy y\?\n\na\.py:7 \(before the change\)\n(> -x\n){30}> … \(10 more lines\)\n\nNo\.$/);
  expect(promptOf("  ", [])).toBe("");
  const taken = comments.items;
  comments.add({ ...about, text: "Late." });
  comments.sent(taken);
  expect(comments.items.map((one) => one.text)).toEqual(["Late."]);
  for (let n = 0; n < MAX_COMMENTS + 5; n++) comments.add({ ...about, text: `${n}` });
  expect(comments.items).toHaveLength(MAX_COMMENTS);
});

test("a mention begins with an @ at the start of a word, and ends with the word", () => {
  expect(mentionAt("@", 1)).toEqual({ from: 0, query: "" });
  expect(mentionAt("see @src/a", 10)).toEqual({ from: 4, query: "src/a" });
  expect(mentionAt("see (@a)", 7)).toEqual({ from: 5, query: "a" });
  for (const [text, caret] of [["a@b.example", 11], ["@a b", 4], ["@abc", 2], ["", 0], ['@"a', 3]] as const) {
    expect(mentionAt(text, caret)).toBeNull();
  }
  expect([mentionOf("a.py"), mentionOf("a.py", 3), mentionOf("a.py", 3, 3), mentionOf("a b.py", 3, 9)]).toEqual([
    ...["@a.py", "@a.py:3", "@a.py:3", '@"a b.py":3-9'],
  ]);
  expect(insertMention("see @sr now", 4, 7, "@src/a")).toEqual({ text: "see @src/a now", caret: 11 });
  expect(insertMention("see", 3, 3, "@a")).toEqual({ text: "see @a ", caret: 7 });
  expect(insertMention("(@a)", 1, 3, "@abc")).toEqual({ text: "(@abc)", caret: 5 });
});
