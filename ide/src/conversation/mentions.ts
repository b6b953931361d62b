/** Finds and inserts `@path` mentions in a prompt. */

export interface Mention {
  /** The position of the `@`. */
  from: number;
  /** The text between the `@` and the caret. */
  query: string;
}

const MAX_LENGTH = 200; // characters of a path that is being typed

/** Returns the mention that ends at the caret, or null. An e-mail address is not a mention: it has text before its `@`. */
export function mentionAt(text: string, caret: number): Mention | null {
  const before = text.slice(Math.max(0, caret - MAX_LENGTH - 2), caret);
  const found = /(?:^|[\s([{"'`])@([^\s@"]*)$/.exec(before);
  if (found === null) return null;
  // With text after the caret, the user edits an existing mention: nothing to complete.
  return /^[^\s.,;:!?)\]}]/.test(text.slice(caret)) ? null : { from: caret - found[1]!.length - 1, query: found[1]! };
}

/** Formats a file, or lines of it, as a mention. */
export function mentionOf(path: string, fromLine?: number, toLine?: number): string {
  const lines = fromLine === undefined ? "" : `:${fromLine}${toLine === undefined || toLine === fromLine ? "" : `-${toLine}`}`;
  return /[\s"]/.test(path) ? `@"${path}"${lines}` : `@${path}${lines}`;
}

/** Replaces the text between `from` and `to` by `mention`, with a space on each side. Returns the new text and caret. */
export function insertMention(text: string, from: number, to: number, mention: string): { text: string; caret: number } {
  const before = text.slice(0, from);
  const after = text.slice(to);
  const lead = before === "" || /[\s([{"'`]$/.test(before) ? "" : " ";
  const trail = /^[\s.,;:!?)\]}]/.test(after) ? "" : " ";
  const caret = before.length + lead.length + mention.length + (trail || after.startsWith(" ") ? 1 : 0);
  return { text: before + lead + mention + trail + after, caret };
}
