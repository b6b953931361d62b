/** The user's comments on lines of a diff. The next prompt sends them; until then this browser stores them. */
import { type KeyValueStorage, readStored, store } from "../browser-storage";
import type { Side } from "../diff/hunks";
import { t } from "../text";

const KEY = "gadget.comments";
const MAX_SESSIONS = 30;
export const MAX_COMMENTS = 100;
const MAX_QUOTED = 30; // lines quoted by one comment

export interface Comment {
  id: number;
  path: string;
  /** The side that the line numbers refer to: the new or the old text. */
  side: Side;
  from: number;
  to: number;
  /** The lines with their signs `+` and `-`. */
  lines: string[];
  text: string;
}

export class Comments {
  items = $state.raw<Comment[]>([]);

  constructor(
    private readonly session: string,
    private readonly storage?: KeyValueStorage,
  ) {
    this.items = readStored<[string, Comment[]][]>(KEY, [], storage).find(([id]) => id === session)?.[1] ?? [];
  }

  get isFull(): boolean {
    return this.items.length >= MAX_COMMENTS;
  }

  add(comment: Omit<Comment, "id">): void {
    if (this.isFull) return;
    const id = Math.max(0, ...this.items.map((one) => one.id)) + 1;
    this.put([...this.items, { ...comment, id }]);
  }

  change(id: number, text: string): void {
    this.put(this.items.map((one) => (one.id === id ? { ...one, text } : one)));
  }

  remove(id: number): void {
    this.put(this.items.filter((one) => one.id !== id));
  }

  /** Removes the comments that a prompt sent. Comments added since then stay. */
  sent(comments: Comment[]): void {
    this.put(this.items.filter((one) => !comments.includes(one)));
  }

  private put(items: Comment[]): void {
    this.items = items;
    const others = readStored<[string, Comment[]][]>(KEY, [], this.storage).filter(([id]) => id !== this.session);
    store(KEY, (items.length ? [[this.session, items], ...others] : others).slice(0, MAX_SESSIONS), this.storage);
  }
}

export function placeOf(comment: Pick<Comment, "path" | "side" | "from" | "to">): string {
  const lines = comment.from === comment.to ? `${comment.from}` : `${comment.from}-${comment.to}`;
  return `${comment.path}:${lines}${comment.side === "old" ? ` (${t.comments.before})` : ""}`;
}

/** Appends the comments to a prompt: for each its place, its lines and its text. */
export function promptOf(typed: string, comments: Comment[]): string {
  const quotes = comments.map((comment) => {
    const more = comment.lines.length - MAX_QUOTED;
    const quoted = comment.lines.slice(0, MAX_QUOTED).map((line) => `> ${line}`.trimEnd());
    if (more > 0) quoted.push(`> … (${t.comments.more(more)})`);
    return [placeOf(comment), ...quoted, "", comment.text].join("\n");
  });
  return [typed.trim(), ...quotes].filter((part) => part !== "").join("\n\n");
}
