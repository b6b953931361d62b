/**
 * A Markdown text that grows: all but its last block never change again, and are rendered once.
 *
 * marked's lexer looks at the tail alone. What precedes the last block of the tail is frozen: `frozen` only grows, each
 * part with a number to key its element by. A fence that is not closed yet is the tail's last block, and is shown as
 * plain text.
 */
import { Lexer, type Token } from "marked";

export interface Block {
  id: number;
  source: string;
}

export interface Tail {
  source: string;
  /** Set within a fence that is not closed: its language, and the code so far. */
  fence: { language: string; code: string } | null;
}

const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)(?:\n|$)/;

export class GrowingMarkdown {
  frozen: Block[] = [];
  tail: Tail = { source: "", fence: null };

  /** `nextId` keys the first block: a text that takes another's place has other blocks. */
  constructor(public nextId = 0) {}

  /** Takes `more` in; whether blocks were frozen. */
  push(more: string): boolean {
    const source = this.tail.source + more;
    const open = openFence(source);
    if (open !== null) {
      // Nothing ends a fence but its closing line: no need to look at what is in it.
      this.tail = { source, fence: open };
      return false;
    }
    const tokens = new Lexer({ gfm: true }).blockTokens(source, []);
    const cut = endOfSettled(tokens, source);
    if (cut === 0) {
      this.tail = { source, fence: null };
      return false;
    }
    const settled = tokens.slice(0, cut);
    this.frozen = [...this.frozen, ...this.blocksOf(settled)];
    // Not of the other tokens: the lexer leaves blanks out at the end.
    const rest = source.slice(settled.reduce((sum, token) => sum + token.raw.length, 0));
    this.tail = { source: rest, fence: openFence(rest) };
    return true;
  }

  /** No more comes: everything is frozen. */
  end(): void {
    if (this.tail.source === "") return;
    const tokens = new Lexer({ gfm: true }).blockTokens(this.tail.source, []);
    this.frozen = [...this.frozen, ...this.blocksOf(tokens)];
    this.tail = { source: "", fence: null };
  }

  private blocksOf(tokens: Token[]): Block[] {
    return tokens.filter((token) => token.type !== "space").map((token) => ({ id: this.nextId++, source: token.raw }));
  }
}

/** How many tokens from the front can no longer change. The last one may, and so may whatever the line that is not
 * complete yet is a part of: `-` may become a list, a heading's underline, a rule. */
function endOfSettled(tokens: Token[], source: string): number {
  const lastLine = source.lastIndexOf("\n") + 1;
  let last = tokens.length - 1;
  while (last >= 0 && tokens[last]!.type === "space") last -= 1;
  let end = 0;
  let settled = 0;
  for (const [n, token] of tokens.entries()) {
    end += token.raw.length;
    if (n >= last || end > lastLine) break;
    settled = n + 1;
  }
  return settled;
}

function openFence(source: string): { language: string; code: string } | null {
  const match = OPEN_FENCE.exec(source);
  if (match === null) return null;
  const [head, fence, info] = match as unknown as [string, string, string];
  const body = source.slice(head.length);
  const close = new RegExp(`(?:^|\\n) {0,3}\\${fence[0]}{${fence.length},}[ \\t]*(?:\\n|$)`);
  if (close.test(body)) return null;
  return { language: info.trim().split(/\s/)[0] ?? "", code: body };
}
