/** Stores which changes the user has reviewed, per session, in this browser. */
import type { Change } from "../diff/hunks";
import { type Kept, read, write } from "../conversation/drafts";

const KEY = "gadget.reviewed";
const MOST_SESSIONS = 30;
const MOST_MARKS = 1000; // per session; the newest stay

/** Returns the keys of changes: hashes of their content, so that a change that is edited further has another key. */
export function keysOf(path: string, changes: Change[]): string[] {
  const seen = new Map<string, number>();
  return changes.map((change) => {
    const lines = change.lines.map((line) => `${line.kind[0]}${line.raw}`).join("");
    const key = `${path}\n${hash(lines)}`;
    const nth = seen.get(key) ?? 0;
    seen.set(key, nth + 1);
    return nth ? `${key} ${nth}` : key;
  });
}

export function reviewedOf(session: string, kept: Kept = localStorage): ReadonlySet<string> {
  return new Set(read<[string, string[]][]>(kept, KEY, []).find(([id]) => id === session)?.[1]);
}

export function keepReviewed(session: string, marks: Iterable<string>, kept: Kept = localStorage): void {
  const others = read<[string, string[]][]>(kept, KEY, []).filter(([id]) => id !== session);
  const own = [...marks].slice(-MOST_MARKS);
  write(kept, KEY, (own.length ? [[session, own], ...others] : others).slice(0, MOST_SESSIONS));
}

/** cyrb53, a 53-bit hash. It tells the changes of a file apart, but does not resist attacks. */
function hash(text: string): string {
  let one = 0xdeadbeef;
  let two = 0x41c6ce57;
  for (let n = 0; n < text.length; n++) {
    const code = text.charCodeAt(n);
    one = Math.imul(one ^ code, 2654435761);
    two = Math.imul(two ^ code, 1597334677);
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(two ^ (two >>> 13), 3266489909);
  two = Math.imul(two ^ (two >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909);
  return (4294967296 * (2097151 & two) + (one >>> 0)).toString(36);
}
