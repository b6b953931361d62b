/** Stores unsaved texts of files in this browser, by session and path. */
import type { FileText } from "./content";

export interface FileDraft {
  session: string;
  path: string;
  text: string;
  /** The version that was edited; null for a file that is not on disk. */
  base: { version: string; content: FileText } | null;
  /** The time of the last edit, in ms since 1970. */
  at: number;
}

/** The storage of the drafts: IndexedDB, or a Map in tests. Every method can throw: a browser may refuse, or be full. */
export interface Shelf {
  all(): Promise<FileDraft[]>;
  get(session: string, path: string): Promise<FileDraft | null>;
  put(draft: FileDraft): Promise<void>;
  remove(session: string, path: string): Promise<void>;
}

const MAX_DRAFTS = 100;
const MAX_CHARACTERS = 20_000_000;

export class FileDrafts {
  /** The size and time of each draft by session and path, so that drafts need not be read for it. */
  private sizes: Map<string, { draft: FileDraft; characters: number }> | null = null;

  constructor(
    private readonly shelf: Shelf,
    private readonly most = { drafts: MAX_DRAFTS, characters: MAX_CHARACTERS },
  ) {}

  /** Stores a draft, and deletes the oldest ones if there is no room. Returns whether the draft is stored. */
  async keep(draft: FileDraft): Promise<boolean> {
    try {
      await this.shelf.put(draft);
      await this.evict(draft);
      return true;
    } catch {
      return false;
    }
  }

  /** Returns the draft; null if there is none, or the browser has no storage. */
  async of(session: string, path: string): Promise<FileDraft | null> {
    try {
      return await this.shelf.get(session, path);
    } catch {
      return null;
    }
  }

  /** Returns the paths of a session's drafts, newest first. */
  async paths(session: string): Promise<string[]> {
    try {
      const all = (await this.shelf.all()).filter((draft) => draft.session === session);
      return all.sort((a, b) => b.at - a.at).map((draft) => draft.path);
    } catch {
      return [];
    }
  }

  async forget(session: string, path: string): Promise<void> {
    this.sizes?.delete(keyOf({ session, path }));
    try {
      await this.shelf.remove(session, path);
    } catch {
      // The draft stays. The next load compares it with the file on disk.
    }
  }

  private async evict(kept: FileDraft): Promise<void> {
    this.sizes ??= new Map((await this.shelf.all()).map((draft) => [keyOf(draft), sized(draft)]));
    this.sizes.set(keyOf(kept), sized(kept));
    const all = [...this.sizes.values()].sort((a, b) => b.draft.at - a.draft.at);
    let characters = 0;
    for (const [n, one] of all.entries()) {
      characters += one.characters;
      const isFirst = n === 0; // the text being edited is stored, whatever its size
      if (isFirst || (n < this.most.drafts && characters <= this.most.characters)) continue;
      await this.shelf.remove(one.draft.session, one.draft.path);
      this.sizes.delete(keyOf(one.draft));
    }
  }
}

function keyOf({ session, path }: Pick<FileDraft, "session" | "path">): string {
  return `${session} ${path}`;
}

function sized(draft: FileDraft) {
  const characters = draft.text.length + (draft.base?.content.text.length ?? 0);
  return { draft: { ...draft, text: "", base: null }, characters };
}

const NAME = "gadget";
const STORE = "fileDrafts";

/** Stores drafts in IndexedDB, which has room for files; localStorage does not. */
export class BrowserShelf implements Shelf {
  private database: Promise<IDBDatabase> | null = null;

  all(): Promise<FileDraft[]> {
    return this.run("readonly", (store) => store.getAll() as IDBRequest<FileDraft[]>);
  }

  async get(session: string, path: string): Promise<FileDraft | null> {
    const found = await this.run("readonly", (store) => store.get([session, path]) as IDBRequest<FileDraft | undefined>);
    return found ?? null;
  }

  async put(draft: FileDraft): Promise<void> {
    await this.run("readwrite", (store) => store.put(draft));
  }

  async remove(session: string, path: string): Promise<void> {
    await this.run("readwrite", (store) => store.delete([session, path]));
  }

  private open(): Promise<IDBDatabase> {
    this.database ??= new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: ["session", "path"] });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error ?? new Error("no database"));
      request.onblocked = () => reject(new Error("the database is in use"));
    }).catch((error: unknown) => {
      this.database = null;
      throw error;
    });
    return this.database;
  }

  private async run<Result>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<Result>): Promise<Result> {
    const database = await this.open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(STORE, mode);
      const request = act(transaction.objectStore(STORE));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? request.error ?? new Error("not kept"));
    });
  }
}
