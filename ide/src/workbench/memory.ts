/** Stores in this browser which panels and files of a session were open. */
import { type KeyValueStorage, readStored, store } from "../browser-storage";

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

const SESSIONS = "gadget.panels";
const SIZES = "gadget.panelSizes";
const MAX_SESSIONS = 50;
const FRESH: Memory = { isFilesOpen: false, isTerminalOpen: false, tabs: [], active: null, recent: [] };
const USUAL: Sizes = { side: 0.58, bottom: 0.35, isWrapped: false };

export function recall(session: string, storage?: KeyValueStorage): Memory {
  const known = readStored<[string, Partial<Memory>][]>(SESSIONS, [], storage).find(([id]) => id === session);
  return { ...FRESH, ...known?.[1] };
}

export function remember(session: string, part: Partial<Memory>, storage?: KeyValueStorage): void {
  const all = readStored<[string, Partial<Memory>][]>(SESSIONS, [], storage);
  const now = { ...recall(session, storage), ...part };
  const others = all.filter(([id]) => id !== session);
  store(SESSIONS, [[session, now], ...others].slice(0, MAX_SESSIONS), storage);
}

export function recallSizes(storage?: KeyValueStorage): Sizes {
  return { ...USUAL, ...readStored<Partial<Sizes>>(SIZES, {}, storage) };
}

export function rememberSizes(part: Partial<Sizes>, storage?: KeyValueStorage): void {
  store(SIZES, { ...recallSizes(storage), ...part }, storage);
}
