/** Stores unsent prompt drafts of each session, and the history of sent prompts, in this browser. */

const DRAFTS = "gadget.drafts";
const HISTORY = "gadget.prompts";
const MOST_DRAFTS = 50;
const MOST_PROMPTS = 100;

export interface Kept {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

export function draftOf(session: string, kept: Kept = localStorage): string {
  return read<[string, string][]>(kept, DRAFTS, []).find(([id]) => id === session)?.[1] ?? "";
}

export function keepDraft(session: string, text: string, kept: Kept = localStorage): void {
  const others = read<[string, string][]>(kept, DRAFTS, []).filter(([id]) => id !== session);
  write(kept, DRAFTS, text === "" ? others : [[session, text], ...others].slice(0, MOST_DRAFTS));
}

export function rememberPrompt(text: string, kept: Kept = localStorage): void {
  const others = read<string[]>(kept, HISTORY, []).filter((known) => known !== text);
  write(kept, HISTORY, [text, ...others].slice(0, MOST_PROMPTS));
}

/** Returns what remains of the prompt after `sent` was sent: the text typed behind it, or all of another text. */
export function leftOf(prompt: string, sent: string): string {
  return prompt.startsWith(sent) ? prompt.slice(sent.length).trimStart() : prompt;
}

/** Moves through the sent prompts with `older()` and `newer()`, and back to the draft. */
export class PromptHistory {
  private at = -1;
  private typed = "";

  constructor(private readonly kept: Kept = localStorage) {}

  older(current: string): string | null {
    const prompts = read<string[]>(this.kept, HISTORY, []);
    if (this.at + 1 >= prompts.length) return null;
    if (this.at < 0) this.typed = current;
    this.at += 1;
    return prompts[this.at] ?? null;
  }

  newer(): string | null {
    if (this.at < 0) return null;
    this.at -= 1;
    return this.at < 0 ? this.typed : (read<string[]>(this.kept, HISTORY, [])[this.at] ?? null);
  }

  reset(): void {
    this.at = -1;
  }
}

export function read<Value>(kept: Kept, key: string, otherwise: Value): Value {
  try {
    return (JSON.parse(kept.getItem(key) ?? "null") as Value | null) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function write(kept: Kept, key: string, value: unknown): void {
  try {
    kept.setItem(key, JSON.stringify(value));
  } catch {
    // The browser's storage is full. The user can type on without a stored draft.
  }
}
