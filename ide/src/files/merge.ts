/**
 * Three texts of one file become one: what it was, what I made of it, and what is on disk now. By line.
 *
 * node-diff3 does the merging. It takes time by the square of what repeats itself (2,000 lines, half of them blank: 3 s),
 * so it is given the stretches between lines that are in all three texts, once, in the same order: most of those
 * stretches are the same in all three, and the others are short.
 */
import { diff3Merge } from "node-diff3";

const MOST_PAIRS = 300_000; // of equal lines in one stretch: 1 s; more than that is one conflict
const MOST_LINES = 20_000; // of one stretch, the same

export interface Merged {
  /** Everything that only one side changed is in it; where both did, mine. */
  mine: string;
  /** The same; where both did, theirs. Equal to `mine` when nothing is in conflict. */
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
    // One by one: an argument list has an end.
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
  const isLarge = Math.max(o.length, a.length, b.length) > MOST_LINES || pairs(o, a) + pairs(o, b) > MOST_PAIRS;
  if (isLarge) return [{ mine: a, theirs: b, isConflict: true }];
  return diff3Merge<string>([...a], [...o], [...b], { excludeFalseConflicts: true }).flatMap(({ ok, conflict }) =>
    conflict === undefined ? agreed(ok ?? []) : [{ mine: conflict.a, theirs: conflict.b, isConflict: true }],
  );
}

/** Where lines are that each text has exactly once, in the same order. */
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

/** The most of them whose values rise. */
function rising<Item>(items: readonly Item[], valueOf: (item: Item) => number): Item[] {
  const ends: number[] = []; // of the best chain of each length, the index of its last item
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
