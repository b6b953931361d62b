/** Stores in this browser which panels and files of a session were open. */
import type { Kept } from "../conversation/drafts";

export interface Memory {
  isFilesOpen: boolean;
  isTerminalOpen: boolean;
  /** The paths of the open files, in order. */
  tabs: string[];
  active: string | null;
  /** The paths opened before, newest first. */
  recent: string[];
}

export interface Sizes {
  /** The width of the side panel, as a fraction of the page. */
  side: number;
  /** The height of the bottom panel, as a fraction of the page. */
  bottom: number;
  isWrapped: boolean;
}

const SESSIONS = "gadget.desks";
const SIZES = "gadget.desk";
const MOST_SESSIONS = 50;
const FRESH: Memory = { isFilesOpen: false, isTerminalOpen: false, tabs: [], active: null, recent: [] };
const USUAL: Sizes = { side: 0.58, bottom: 0.35, isWrapped: false };

export function recall(session: string, kept: Kept = localStorage): Memory {
  const known = read<[string, Partial<Memory>][]>(kept, SESSIONS, []).find(([id]) => id === session);
  return { ...FRESH, ...known?.[1] };
}

export function remember(session: string, part: Partial<Memory>, kept: Kept = localStorage): void {
  const all = read<[string, Partial<Memory>][]>(kept, SESSIONS, []);
  const now = { ...recall(session, kept), ...part };
  const others = all.filter(([id]) => id !== session);
  write(kept, SESSIONS, [[session, now], ...others].slice(0, MOST_SESSIONS));
}

export function recallSizes(kept: Kept = localStorage): Sizes {
  return { ...USUAL, ...read<Partial<Sizes>>(kept, SIZES, {}) };
}

export function rememberSizes(part: Partial<Sizes>, kept: Kept = localStorage): void {
  write(kept, SIZES, { ...recallSizes(kept), ...part });
}

function read<Value>(kept: Kept, key: string, otherwise: Value): Value {
  try {
    return (JSON.parse(kept.getItem(key) ?? "null") as Value | null) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(kept: Kept, key: string, value: unknown): void {
  try {
    kept.setItem(key, JSON.stringify(value));
  } catch {
    // The storage is full. The next visit uses the defaults.
  }
}
