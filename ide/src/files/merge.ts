/** Three texts of one file become one: what it was, what I made of it, and what is on disk now. By line. */
import { diff3Merge } from "node-diff3";

const MOST_LINES = 20_000; // of what differs: 2 s at the worst; more than that is one conflict

export interface Merged {
  /** Everything that only one side changed is in it; where both did, mine. */
  mine: string;
  /** The same; where both did, theirs. Equal to `mine` when nothing is in conflict. */
  theirs: string;
  conflicts: number;
}

export function merge(base: string, mine: string, theirs: string): Merged {
  if (mine === theirs || base === theirs) return { mine, theirs: mine, conflicts: 0 };
  if (base === mine) return { mine: theirs, theirs, conflicts: 0 };
  const [o, a, b] = [lines(base), lines(mine), lines(theirs)];
  const [start, end] = shared(o, a, b);
  const middle = (all: string[]) => all.slice(start, all.length - end);
  const parts = Math.max(o.length, a.length, b.length) - start - end > MOST_LINES
    ? [{ conflict: { a: middle(a), b: middle(b) } }]
    : diff3Merge<string>(middle(a), middle(o), middle(b), { excludeFalseConflicts: true });
  const made: { mine: string[]; theirs: string[] } = { mine: a.slice(0, start), theirs: a.slice(0, start) };
  let conflicts = 0;
  for (const part of parts) {
    if ("ok" in part && part.ok !== undefined) {
      made.mine.push(...part.ok);
      made.theirs.push(...part.ok);
    } else if (part.conflict !== undefined) {
      conflicts += 1;
      made.mine.push(...part.conflict.a);
      made.theirs.push(...part.conflict.b);
    }
  }
  const tail = a.slice(a.length - end);
  return { mine: [...made.mine, ...tail].join("\n"), theirs: [...made.theirs, ...tail].join("\n"), conflicts };
}

function lines(text: string): string[] {
  return text.split("\n");
}

/** How many lines all of them have in common, at the start and at the end. */
function shared(...texts: string[][]): [number, number] {
  const [first, ...others] = texts as [string[], ...string[][]];
  const most = Math.min(...texts.map((text) => text.length));
  let start = 0;
  while (start < most && others.every((other) => other[start] === first[start])) start += 1;
  let end = 0;
  const last = (text: string[]) => text[text.length - 1 - end];
  while (end < most - start && others.every((other) => last(other) === last(first))) end += 1;
  return [start, end];
}
