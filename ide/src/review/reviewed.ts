/** Stores which changes the user has reviewed, per session, in this browser. */
import type { Change } from "../diff/hunks";
import { type KeyValueStorage, readStored, store } from "../browser-storage";

const KEY = "gadget.reviewed";
const MAX_SESSIONS = 30;
const MAX_MARKS = 1000; // per session; the newest stay

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

export function reviewedOf(session: string, storage?: KeyValueStorage): ReadonlySet<string> {
  return new Set(readStored<[string, string[]][]>(KEY, [], storage).find(([id]) => id === session)?.[1]);
}

export function keepReviewed(session: string, marks: Iterable<string>, storage?: KeyValueStorage): void {
  const others = readStored<[string, string[]][]>(KEY, [], storage).filter(([id]) => id !== session);
  const own = [...marks].slice(-MAX_MARKS);
  store(KEY, (own.length ? [[session, own], ...others] : others).slice(0, MAX_SESSIONS), storage);
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
