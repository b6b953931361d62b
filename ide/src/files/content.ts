/** Converts a file between bytes and text. Unedited parts keep their bytes: line ends, a byte order mark. */

export type Ending = "\n" | "\r\n";

export interface FileText {
  /** The text with `\n` line ends. In a file with mixed line ends, each `\r` stays as a character. */
  text: string;
  ending: Ending;
  hasBom: boolean;
}

const BOM = "\ufeff";
export const EMPTY: FileText = { text: "", ending: "\n", hasBom: false };

/** Decodes a file; null if the bytes are not UTF-8 or contain NUL, so are not text. */
export function decode(bytes: Uint8Array): FileText | null {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
  if (text.includes("\0")) return null;
  const hasBom = text.startsWith(BOM);
  if (hasBom) text = text.slice(1);
  // Only uniform line ends are converted: with mixed ones, the ending of a new line would be unknown.
  if (!/\r\n/.test(text) || /[^\r]\n|^\n|\r(?!\n)/.test(text)) return { text, ending: "\n", hasBom };
  return { text: text.replaceAll("\r\n", "\n"), ending: "\r\n", hasBom };
}

export function encode({ text, ending, hasBom }: FileText): Uint8Array<ArrayBuffer> {
  const lines = ending === "\n" ? text : text.replaceAll("\n", "\r\n");
  return new TextEncoder().encode((hasBom ? BOM : "") + lines) as Uint8Array<ArrayBuffer>;
}

/** Returns the length of the longest line, in characters. */
export function longestLine(text: string): number {
  let longest = 0;
  for (let from = 0; from <= text.length; ) {
    const to = text.indexOf("\n", from);
    const end = to < 0 ? text.length : to;
    longest = Math.max(longest, end - from);
    from = end + 1;
  }
  return longest;
}

/** Returns the one range that differs, so that a cursor outside of it keeps its place. */
export function difference(before: string, after: string): { from: number; to: number; insert: string } {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before.charCodeAt(start) === after.charCodeAt(start)) start += 1;
  let end = 0;
  while (end < most - start && before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)) end += 1;
  return { from: start, to: before.length - end, insert: after.slice(start, after.length - end) };
}
