/** Stores unsent prompt drafts of each session, and the history of sent prompts, in this browser. */
import { type KeyValueStorage, readStored, store } from "../browser-storage";

const DRAFTS = "gadget.drafts";
const HISTORY = "gadget.prompts";
const MAX_DRAFTS = 50;
const MAX_PROMPTS = 100;

export function draftOf(session: string, storage?: KeyValueStorage): string {
  return readStored<[string, string][]>(DRAFTS, [], storage).find(([id]) => id === session)?.[1] ?? "";
}

export function keepDraft(session: string, text: string, storage?: KeyValueStorage): void {
  const others = readStored<[string, string][]>(DRAFTS, [], storage).filter(([id]) => id !== session);
  store(DRAFTS, text === "" ? others : [[session, text], ...others].slice(0, MAX_DRAFTS), storage);
}

export function rememberPrompt(text: string, storage?: KeyValueStorage): void {
  const others = readStored<string[]>(HISTORY, [], storage).filter((known) => known !== text);
  store(HISTORY, [text, ...others].slice(0, MAX_PROMPTS), storage);
}

/** Returns what remains of the prompt after `sent` was sent: the text typed behind it, or all of another text. */
export function remainingPrompt(prompt: string, sent: string): string {
  return prompt.startsWith(sent) ? prompt.slice(sent.length).trimStart() : prompt;
}

/** Moves through the sent prompts with `older()` and `newer()`, and back to the draft. */
export class PromptHistory {
  private at = -1;
  private typed = "";

  constructor(private readonly storage?: KeyValueStorage) {}

  older(current: string): string | null {
    const prompts = readStored<string[]>(HISTORY, [], this.storage);
    if (this.at + 1 >= prompts.length) return null;
    if (this.at < 0) this.typed = current;
    this.at += 1;
    return prompts[this.at] ?? null;
  }

  newer(): string | null {
    if (this.at < 0) return null;
    this.at -= 1;
    return this.at < 0 ? this.typed : (readStored<string[]>(HISTORY, [], this.storage)[this.at] ?? null);
  }

  reset(): void {
    this.at = -1;
  }
}
