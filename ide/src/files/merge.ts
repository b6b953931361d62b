/**
 * Merges three versions of a file by line: the common base, the user's text, and the text on disk.
 *
 * node-diff3 merges. Its time grows with the square of repeated lines (2,000 lines, half of them blank: 3 s). So it gets
 * only the sections between anchors: lines that each text has exactly once, in the same order. Most sections are equal in
 * all three texts, and the others are short.
 */
import { diff3Merge } from "node-diff3";

const MAX_PAIRS = 300_000; // pairs of equal lines in one section: 1 s; a section with more is one conflict
const MAX_LINES = 20_000; // lines of one section: a larger one is one conflict

export interface Merged {
  /** The merged text. In conflicts, it has the user's lines. */
  mine: string;
  /** The merged text with the lines on disk in conflicts. Equal to `mine` without conflicts. */
  theirs: string;
  conflicts: number;
}

type Lines = readonly string[];

export function merge(base: string, mine: string, theirs: string): Merged {
  if (mine === theirs || base === theirs) return { mine, theirs: mine, conflicts: 0 };
  if (base === mine) return { mine: theirs, theirs, conflicts: 0 };
  const [o, a, b] = [base.split("\n"), mine.split("\n"), theirs.split("\n")];
  const made: { mine: string[]; theirs: string[] } = { mine: [], theirs: [] };
  let conflicts = 0;
  const put = (ours: Lines, their: Lines) => {
    // One by one, because the number of arguments is limited.
    for (const line of ours) made.mine.push(line);
    for (const line of their) made.theirs.push(line);
  };
  let at = { o: 0, a: 0, b: 0 };
  for (const anchor of [...anchors(o, a, b), { o: o.length, a: a.length, b: b.length }]) {
    const parts = mergeStretch(o.slice(at.o, anchor.o), a.slice(at.a, anchor.a), b.slice(at.b, anchor.b));
    for (const part of parts) {
      put(part.mine, part.theirs);
      if (part.isConflict) conflicts += 1;
    }
    const line = o[anchor.o];
    if (line !== undefined) put([line], [line]);
    at = { o: anchor.o + 1, a: anchor.a + 1, b: anchor.b + 1 };
  }
  return { mine: made.mine.join("\n"), theirs: made.theirs.join("\n"), conflicts };
}

interface Part {
  mine: Lines;
  theirs: Lines;
  isConflict: boolean;
}

function mergeStretch(o: Lines, a: Lines, b: Lines): Part[] {
  const agreed = (lines: Lines): Part[] => [{ mine: lines, theirs: lines, isConflict: false }];
  if (isSame(o, b) || isSame(a, b)) return agreed(a);
  if (isSame(o, a)) return agreed(b);
  const isLarge = Math.max(o.length, a.length, b.length) > MAX_LINES || pairs(o, a) + pairs(o, b) > MAX_PAIRS;
  if (isLarge) return [{ mine: a, theirs: b, isConflict: true }];
  return diff3Merge<string>([...a], [...o], [...b], { excludeFalseConflicts: true }).flatMap(({ ok, conflict }) =>
    conflict === undefined ? agreed(ok ?? []) : [{ mine: conflict.a, theirs: conflict.b, isConflict: true }],
  );
}

/** Returns the positions of the anchors: lines that each text has exactly once, in the same order. */
function anchors(o: Lines, a: Lines, b: Lines): { o: number; a: number; b: number }[] {
  const [inA, inB] = [singles(a), singles(b)];
  const common = [...singles(o)].flatMap(([line, at]) => {
    const found = { o: at, a: inA.get(line), b: inB.get(line) };
    return found.a === undefined || found.b === undefined ? [] : [{ o: at, a: found.a, b: found.b }];
  });
  common.sort((one, other) => one.o - other.o);
  return rising(rising(common, (one) => one.a), (one) => one.b);
}

function singles(lines: Lines): Map<string, number> {
  const at = new Map<string, number>();
  const twice = new Set<string>();
  for (const [n, line] of lines.entries()) {
    if (at.has(line)) twice.add(line);
    else at.set(line, n);
  }
  for (const line of twice) at.delete(line);
  return at;
}

/** Returns the longest increasing subsequence. */
function rising<Item>(items: readonly Item[], valueOf: (item: Item) => number): Item[] {
  const ends: number[] = []; // for each length: the index of the last item of the best chain
  const before = new Array<number>(items.length).fill(-1);
  for (const [n, item] of items.entries()) {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (valueOf(items[ends[middle]!]!) < valueOf(item)) low = middle + 1;
      else high = middle;
    }
    before[n] = low > 0 ? ends[low - 1]! : -1;
    ends[low] = n;
  }
  const chain: Item[] = [];
  for (let n = ends.at(-1) ?? -1; n >= 0; n = before[n]!) chain.push(items[n]!);
  return chain.reverse();
}

function pairs(one: Lines, other: Lines): number {
  const counts = new Map<string, number>();
  for (const line of one) counts.set(line, (counts.get(line) ?? 0) + 1);
  return other.reduce((sum, line) => sum + (counts.get(line) ?? 0), 0);
}

function isSame(one: Lines, other: Lines): boolean {
  return one.length === other.length && one.every((line, n) => line === other[n]);
}
