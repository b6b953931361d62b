/**
 * Splits a growing Markdown text into blocks. All blocks but the last are final, and are rendered once.
 *
 * marked's lexer reads only the tail. Blocks before the last one of the tail are frozen: `frozen` only grows, and each
 * block has an id as the key of its element. An open code fence is the last block, and is shown as plain text.
 */
import { Lexer, type Token } from "marked";

export interface Block {
  id: number;
  source: string;
}

export interface Tail {
  source: string;
  /** Set in an open code fence: its language, and the code so far. */
  fence: { language: string; code: string } | null;
}

const OPEN_FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)(?:\n|$)/;

export class GrowingMarkdown {
  frozen: Block[] = [];
  tail: Tail = { source: "", fence: null };

  /** `nextId` is the id of the first block, so that a text that replaces another one has new ids. */
  constructor(public nextId = 0) {}

  /** Appends `more`. Returns whether blocks were frozen. */
  push(more: string): boolean {
    const source = this.tail.source + more;
    const open = openFence(source);
    if (open !== null) {
      // Only its closing line ends a fence, so its content needs no lexer.
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
    // Not the raw text of the other tokens: the lexer drops blank lines at the end.
    const rest = source.slice(settled.reduce((sum, token) => sum + token.raw.length, 0));
    this.tail = { source: rest, fence: openFence(rest) };
    return true;
  }

  /** Ends the text: freezes everything. */
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

/** Returns how many tokens from the front are final. The last one is not, nor is the one with the incomplete last line:
 * `-` can become a list, a heading's underline or a rule. */
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
