/** `@path` in a prompt: where one is being typed, and what it becomes. */

export interface Mention {
  /** Where its `@` is. */
  from: number;
  /** What was typed after it, up to the caret. */
  asked: string;
}

const LONGEST = 200; // characters of a path that is being typed

/** The one that the caret is at the end of; null where there is none: an address has something before its `@`. */
export function mentionAt(text: string, caret: number): Mention | null {
  const before = text.slice(Math.max(0, caret - LONGEST - 2), caret);
  const found = /(?:^|[\s([{"'`])@([^\s@"]*)$/.exec(before);
  if (found === null) return null;
  // What goes on behind the caret is being changed, not begun.
  return /^[^\s.,;:!?)\]}]/.test(text.slice(caret)) ? null : { from: caret - found[1]!.length - 1, asked: found[1]! };
}

/** A file, or lines of it, as a prompt names them. */
export function mentionOf(path: string, fromLine?: number, toLine?: number): string {
  const lines = fromLine === undefined ? "" : `:${fromLine}${toLine === undefined || toLine === fromLine ? "" : `-${toLine}`}`;
  return /[\s"]/.test(path) ? `@"${path}"${lines}` : `@${path}${lines}`;
}

/** The text with `said` in the place of what is between `from` and `to`, with a space on each side of it, and where the
 * caret is then. */
export function inserted(text: string, from: number, to: number, said: string): { text: string; caret: number } {
  const before = text.slice(0, from);
  const after = text.slice(to);
  const lead = before === "" || /[\s([{"'`]$/.test(before) ? "" : " ";
  const trail = /^[\s.,;:!?)\]}]/.test(after) ? "" : " ";
  const caret = before.length + lead.length + said.length + (trail || after.startsWith(" ") ? 1 : 0);
  return { text: before + lead + said + trail + after, caret };
}
