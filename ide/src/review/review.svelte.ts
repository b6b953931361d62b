/** The state of a review: the changes of a turn, a session or the working tree, with their marks and undos. */
import { type FilesApi, filesOf } from "../api/files";
import { ApiError, errorText } from "../api/http";
import * as api from "../api/resources";
import type { FileDiff } from "../api/types";
import type { SessionView } from "../conversation/session.svelte";
import type { TurnView } from "../conversation/turn.svelte";
import { type Change, type Patch, patchOf } from "../diff/hunks";
import { t } from "../text";
import { keepReviewed, keysOf, reviewedOf } from "./reviewed";
import { standing, type Standing } from "./undo";
import { type Back, type DiskFile, exchange, readDisk, Refused, undoFile } from "./undo-on-disk";

export type Scope = "turn" | "session" | "uncommitted";

const MAX_REDOS = 50; // undos that can be brought back

export interface Entry {
  file: FileDiff;
  /** Null if there are no lines to show: the file is binary or too large. */
  patch: Patch | null;
  /** The key of each change; the key of the file if it has no changes to show. */
  keys: string[];
}

interface Undone {
  says: string;
  backs: Back[];
}

export class Review {
  scope = $state<Scope>("turn");
  entries = $state.raw<Entry[] | null>(null);
  fileCount = $state(0);
  error = $state<string | null>(null);
  /** The path of the shown file. */
  path = $state<string | null>(null);
  /** The shown file on disk; undefined until it is loaded. */
  disk = $state.raw<DiskFile | null | undefined>(undefined);
  marks = $state.raw<ReadonlySet<string>>(new Set());
  undone = $state.raw<Undone[]>([]);
  /** The result of the last action, or why it failed. */
  news = $state<{ says: string; isBad: boolean } | null>(null);
  isBusy = $state(false);

  private readonly files: FilesApi;
  private latestRequest = 0;

  constructor(
    readonly session: SessionView,
    readonly turn: TurnView | null,
    scope: Scope,
  ) {
    this.files = filesOf(session.id);
    this.scope = turn === null && scope === "turn" ? "session" : scope;
    this.marks = reviewedOf(session.id);
  }

  get entry(): Entry | null {
    return this.entries?.find((entry) => entry.file.path === this.path) ?? null;
  }

  get total(): number {
    return (this.entries ?? []).reduce((sum, entry) => sum + entry.keys.length, 0);
  }

  get reviewed(): number {
    return (this.entries ?? []).reduce((sum, entry) => sum + this.reviewedIn(entry), 0);
  }

  reviewedIn(entry: Entry): number {
    return entry.keys.filter((key) => this.marks.has(key)).length;
  }

  /** Loads the changes, and the shown file on disk. */
  async load(): Promise<void> {
    const request = ++this.latestRequest;
    this.error = null;
    try {
      const asks = this.scope === "turn" ? api.turnDiff(this.turn!.id) : api.sessionDiff(this.session.id, this.scope);
      const diff = await asks;
      if (request !== this.latestRequest) return;
      this.entries = diff.files.map(entryOf);
      this.fileCount = diff.fileCount;
      if (this.entry === null) this.path = this.entries[0]?.file.path ?? null;
    } catch (error) {
      if (request !== this.latestRequest) return;
      this.entries = [];
      this.error = errorText(error);
    }
    await this.readDisk();
  }

  async choose(scope: Scope): Promise<void> {
    this.scope = scope;
    this.entries = null;
    this.news = null;
    await this.load();
  }

  /** Shows a file at once, and loads its text on disk afterwards. */
  show(path: string): void {
    this.path = path;
    void this.readDisk();
  }

  /** Shows the previous or the next file, and wraps around at the ends. */
  showNext(by: 1 | -1): void {
    const all = this.entries ?? [];
    const at = all.findIndex((entry) => entry.file.path === this.path);
    const next = all[(at + by + all.length) % Math.max(1, all.length)];
    if (next !== undefined) this.show(next.file.path);
  }

  standingOf(change: Change): Standing {
    const text = this.disk?.text;
    return text === undefined || text === null ? "there" : standing(text, change);
  }

  keep(keys: string[]): void {
    this.mark([...this.marks, ...keys]);
  }

  unkeep(key: string): void {
    this.mark([...this.marks].filter((one) => one !== key));
  }

  async undoChange(entry: Entry, change: Change): Promise<void> {
    const { file, patch } = entry;
    const isWhole = file.status === "added" || file.status === "deleted";
    await this.act(async () => {
      const back = isWhole
        ? await undoFile(this.files, file, patch!)
        : await exchange(this.files, file.path, change, "new");
      if (back === null) throw new Refused(t.review.already(file.path));
      this.note(t.review.undone(file.path), [back]);
    });
  }

  /** Applies an undone change to the file again. */
  async redoChange(entry: Entry, change: Change): Promise<void> {
    await this.act(async () => {
      await exchange(this.files, entry.file.path, change, "old");
      this.news = { says: t.review.broughtBack, isBad: false };
    });
  }

  /** Undoes whole files. Reports the files that cannot be undone. */
  async undoFiles(entries: Entry[]): Promise<void> {
    await this.act(async () => {
      const backs: Back[] = [];
      const left: string[] = [];
      for (const { file, patch } of entries) {
        try {
          if (patch === null) throw new Refused(t.review.refusals.notText(file.path));
          const back = await undoFile(this.files, file, patch);
          if (back !== null) backs.push(back);
        } catch (error) {
          // This error concerns all files: the agent works, or the drone is offline.
          const isOfAll = error instanceof ApiError && !["fileChanged", "alreadyExists", "notFound", "tooLarge"].includes(error.code);
          left.push(errorText(error));
          if (isOfAll || !(error instanceof ApiError || error instanceof Refused)) break;
        }
      }
      if (backs.length) this.note(t.review.undoneFiles(backs.length), backs);
      if (left.length) this.news = { says: [backs.length ? t.review.undoneFiles(backs.length) : "", ...left].join(" ").trim(), isBad: true };
      else if (!backs.length) this.news = { says: t.review.nothing, isBad: false };
    });
  }

  /** Undoes the last undo. */
  async bringBack(): Promise<void> {
    const last = this.undone.at(-1);
    if (last === undefined) return;
    await this.act(async () => {
      for (const back of last.backs.toReversed()) await back();
      this.undone = this.undone.slice(0, -1);
      this.news = { says: t.review.broughtBack, isBad: false };
    });
  }

  private note(says: string, backs: Back[]): void {
    this.undone = [...this.undone, { says, backs }].slice(-MAX_REDOS);
    this.news = { says, isBad: false };
  }

  private async act(action: () => Promise<void>): Promise<void> {
    if (this.isBusy) return;
    if (this.session.workspaceMode === "agent") {
      this.news = { says: t.review.agentWorks, isBad: true };
      return;
    }
    this.isBusy = true;
    this.news = null;
    try {
      await action();
    } catch (error) {
      const isOther = error instanceof ApiError && error.code === "fileChanged";
      const isAgent = error instanceof ApiError && error.code === "workspaceBusy";
      this.news = { says: isOther ? t.review.fileChanged : isAgent ? t.review.agentWorks : errorText(error), isBad: true };
    } finally {
      await this.load();
      this.isBusy = false;
    }
  }

  private mark(keys: string[]): void {
    this.marks = new Set(keys);
    keepReviewed(this.session.id, this.marks);
  }

  private async readDisk(): Promise<void> {
    const { path } = this;
    this.disk = undefined;
    if (path === null || this.entry?.patch == null) return;
    const found = await readDisk(this.files, path).catch(() => undefined); // an undo then reports the error
    if (path === this.path) this.disk = found;
  }
}

function entryOf(file: FileDiff): Entry {
  const isShown = file.diff !== null || (!file.truncated && file.added === 0 && file.removed === 0);
  const patch = isShown ? patchOf(file.diff ?? "") : null;
  const keys = patch === null ? [] : keysOf(file.path, patch.changes);
  return { file, patch, keys: keys.length ? keys : [`${file.path}\n${file.status} ${file.added} ${file.removed}`] };
}
