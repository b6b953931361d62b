/** Completes an `@` mention: searches files shortly after the last key. Only the newest search counts. */
import { errorText } from "../api/http";
import { filesOf } from "../api/files";
import type { Mention } from "./mentions";

const PAUSE_MS = 120;
const MAX_FILES = 12; // files in the list

export class MentionSearch {
  paths = $state.raw<string[]>([]);
  /** The index of the selected file. */
  at = $state(0);
  /** Why files cannot be searched, as a text for the user; null if they can. */
  why = $state<string | null>(null);
  mention = $state.raw<Mention | null>(null);
  /** Whether `paths` is the result for the current query. */
  isCurrent = $state(false);

  private waits: ReturnType<typeof setTimeout> | undefined;
  private latestRequest = 0;
  /** The position of an `@` whose list the user closed: it stays closed. */
  private closedAt: number | null = null;

  constructor(private readonly session: string) {}

  /** Updates the list for the current mention; null if the caret is not in one. */
  follow(mention: Mention | null): void {
    if (mention === null) this.closedAt = null;
    if (mention === null || mention.from === this.closedAt) {
      this.end();
      return;
    }
    if (mention.query === this.mention?.query && mention.from === this.mention.from) return;
    this.mention = mention;
    this.isCurrent = false;
    clearTimeout(this.waits);
    this.waits = setTimeout(() => void this.ask(mention.query), PAUSE_MS);
  }

  step(by: 1 | -1): void {
    this.at = (this.at + by + this.paths.length) % Math.max(1, this.paths.length);
  }

  close(): void {
    this.closedAt = this.mention?.from ?? null;
    this.end();
  }

  end(): void {
    clearTimeout(this.waits);
    this.latestRequest += 1;
    this.mention = null;
    this.paths = [];
    this.why = null;
    this.isCurrent = false;
  }

  private async ask(q: string): Promise<void> {
    const request = ++this.latestRequest;
    let paths: string[] = [];
    let why: string | null = null;
    try {
      paths = (await filesOf(this.session).find(q)).paths.slice(0, MAX_FILES);
    } catch (error) {
      why = errorText(error);
    }
    if (request !== this.latestRequest) return;
    this.paths = paths;
    this.why = why;
    this.at = 0;
    this.isCurrent = true;
  }
}
