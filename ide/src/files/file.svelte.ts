/**
 * One open file: its text on disk, its edited text, and how both are merged.
 *
 * Edits are never lost: this browser stores them as a draft until the drone has written them. The text on disk is never
 * lost: a save names the version that it replaces.
 */
import { ApiError, errorText } from "../api/http";
import { type FilesApi, MAX_WRITTEN_BYTES } from "../api/files";
import { t } from "../text";
import { decode, EMPTY, encode, type FileText } from "./content";
import type { FileDrafts } from "./drafts";
import { merge } from "./merge";

const KEEP_MS = 300;
const MAX_TRIES = 4; // merges in a row, if the file keeps changing on disk

export type FileState = "loading" | "text" | "image" | "unreadable" | "failed";

/** A version of the file on disk. */
export interface Base {
  version: string;
  content: FileText;
}

/** The editor, if open: it holds the text during edits. */
export interface Surface {
  text(): string;
  /** Replaces the text; cursor and undo history stay. */
  replace(text: string): void;
}

/** Both sides changed the same lines. All other changes of both sides are in both texts. */
export interface Conflict {
  mine: string;
  theirs: string;
  count: number;
  disk: Base;
}

/** Where to put the cursor: a line from 1, or the position of a text. */
export interface Place {
  line?: number;
  text?: string;
}

export class OpenFile {
  path = $state("");
  state = $state<FileState>("loading");
  /** Why the file is not shown or was not saved. */
  error = $state<string | null>(null);
  isDirty = $state(false);
  isSaving = $state(false);
  /** Whether the file is too large to save. */
  isReadOnly = $state(false);
  /** The version that the user edits; null while there is no file on disk. */
  base = $state.raw<Base | null>(null);
  /** The version on disk, if it is not `base`. */
  disk = $state.raw<Base | "gone" | null>(null);
  conflict = $state.raw<Conflict | null>(null);
  /** Reports an automatic action, such as a merge. */
  note = $state<string | null>(null);
  /** The time of the restored draft, in ms since 1970. */
  restoredAt = $state<number | null>(null);
  /** Whether this browser stores the unsaved text. */
  isKept = $state(true);
  imageUrl = $state<string | null>(null);
  sizeBytes = $state<number | null>(null);
  place = $state.raw<Place | null>(null);
  /** Whether to focus the editor once the text is loaded: the user opened the file by name. */
  isFocusWanted = $state(false);
  /** Counts reloads that need a new editor, such as for another kind of file. */
  generation = $state(0);

  surface: Surface | null = null;
  /** The editor's state while another tab is shown. */
  editorState: unknown = null;
  private plain = "";
  private working: Promise<unknown> = Promise.resolve();
  private keeping: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly session: string,
    path: string,
    private readonly api: FilesApi,
    private readonly drafts: FileDrafts,
  ) {
    this.path = path;
  }

  get text(): string {
    return this.surface?.text() ?? this.plain;
  }

  /** Reads the file and its draft. */
  load(): Promise<void> {
    return this.serially(async () => {
      const draft = await this.drafts.of(this.session, this.path);
      this.error = null;
      let isThere = true;
      try {
        isThere = await this.take();
      } catch (error) {
        if (draft === null) {
          this.state = "failed";
          this.error = errorText(error);
          return;
        }
        this.error = t.files.fromDraft(errorText(error));
        this.base = draft.base;
      }
      if (!isThere && draft === null) {
        this.state = "failed";
        this.error = t.files.notThere;
        return;
      }
      if (draft === null || (this.state !== "text" && this.state !== "loading")) return;
      if (this.base !== null && draft.text === this.base.content.text) {
        await this.drafts.forget(this.session, this.path);
        return;
      }
      const found = this.base;
      this.state = "text";
      this.base = draft.base;
      if (!isThere) this.disk = "gone";
      else if (found !== null && found.version !== draft.base?.version) this.disk = found;
      this.replace(draft.text);
      this.restoredAt = draft.at;
    });
  }

  /** Checks the file on disk for changes. Without edits, the text follows the disk. */
  look(): Promise<void> {
    return this.serially(async () => {
      if (this.state === "failed" || this.state === "loading" || this.conflict !== null) return;
      try {
        const known = this.disk === "gone" ? undefined : (this.disk ?? this.base)?.version;
        if (!(await this.take(known))) this.disk = "gone";
        else this.error = null;
      } catch {
        // A save reports the error. Until then, the page shows the last known text.
      }
    });
  }

  /** The editor closes. Keeps its text. */
  leave(text: string): void {
    this.plain = text;
    this.surface = null;
    void this.keepNow();
  }

  /** The user edited the text. */
  edited(isAsOnDisk: boolean): void {
    this.isDirty = !isAsOnDisk;
    this.note = null;
    this.keepSoon();
  }

  /** Saves to disk. Merges changes on disk first, or shows a conflict. Returns whether the file was saved. */
  save(): Promise<boolean> {
    return this.serially(async () => {
      if (this.state !== "text" || this.isReadOnly || this.conflict !== null) return false;
      if (!this.isDirty && this.base !== null && this.disk !== "gone") return true;
      this.isSaving = true;
      this.error = null;
      try {
        return await this.write();
      } catch (error) {
        this.error = this.isKept ? t.files.notSaved(errorText(error)) : errorText(error);
        return false;
      } finally {
        this.isSaving = false;
      }
    });
  }

  /** Merges with the version on disk, and saves if there is no conflict. */
  mergeDisk(): Promise<boolean> {
    const { disk } = this;
    if (disk === null || disk === "gone") return this.save();
    return this.mergeWith(disk) ? this.save() : Promise.resolve(false);
  }

  /** Saves the edited text over the version on disk. */
  overwrite(): Promise<boolean> {
    if (this.disk === "gone") this.base = null;
    else if (this.disk !== null) this.base = this.disk;
    this.disk = null;
    this.measure();
    return this.save();
  }

  /** Loads the version on disk. The editor can undo this. */
  reload(): void {
    const { disk } = this;
    if (disk === "gone") return;
    if (disk !== null) this.base = disk;
    this.disk = null;
    this.restoredAt = null;
    if (this.base !== null) this.replace(this.base.content.text);
  }

  /** Goes back from a conflict to the editor. Both versions stay as they are. */
  leaveConflict(): void {
    if (this.conflict !== null) this.disk = this.conflict.disk;
    this.conflict = null;
  }

  /** Saves the result of a conflict or a comparison. */
  resolve(text: string): Promise<boolean> {
    const disk = this.conflict?.disk ?? (this.disk === "gone" ? null : this.disk);
    this.conflict = null;
    this.disk = null;
    if (disk !== null) this.base = disk;
    this.replace(text);
    return this.save();
  }

  /** The file was renamed. */
  async moved(path: string): Promise<void> {
    const from = this.path;
    this.path = path;
    if (this.isDirty) await this.keepNow();
    await this.drafts.forget(this.session, from);
  }

  /** Stores the draft now, because the page may close. */
  async keepNow(): Promise<void> {
    clearTimeout(this.keeping);
    this.keeping = undefined;
    if (this.state !== "text") return;
    const { path } = this;
    if (!this.isDirty) {
      this.isKept = true;
      return this.drafts.forget(this.session, path);
    }
    const draft = { session: this.session, path, text: this.text, base: this.base, at: Date.now() };
    this.isKept = await this.drafts.keep(draft);
  }

  /** Discards the edits. */
  async discard(): Promise<void> {
    clearTimeout(this.keeping);
    this.isDirty = false;
    await this.drafts.forget(this.session, this.path);
  }

  close(): void {
    if (this.imageUrl !== null) URL.revokeObjectURL(this.imageUrl);
    this.imageUrl = null;
  }

  /** Runs operations one after the other, so that a read is never older than a write. */
  private serially<Result>(act: () => Promise<Result>): Promise<Result> {
    const done = this.working.then(act);
    this.working = done.catch(() => undefined);
    return done;
  }

  private async write(): Promise<boolean> {
    for (let n = 0; n < MAX_TRIES; n++) {
      const content = { ...(this.base?.content ?? EMPTY), text: this.text };
      const bytes = encode(content);
      if (bytes.length > MAX_WRITTEN_BYTES) throw new ApiError("tooLarge", t.files.tooLargeToSave, 413);
      try {
        const saved = await this.api.save(this.path, bytes, this.base?.version ?? null);
        this.base = { version: saved.version, content };
        this.disk = null;
        this.restoredAt = null;
        this.measure();
        return true;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.code === "notFound" && this.base !== null) {
          this.disk = "gone";
          return false;
        }
        if (error.code !== "fileChanged" && error.code !== "alreadyExists") throw error;
      }
      const disk = await this.readText();
      if (disk === null) {
        this.disk = "gone";
        return false;
      }
      if (!this.mergeWith(disk)) return false;
    }
    throw new Error(t.files.keepsChanging);
  }

  /** Merges the text with `disk`. Returns false, and sets `conflict`, if both changed the same lines. */
  private mergeWith(disk: Base): boolean {
    const { mine, theirs, conflicts } = merge(this.base?.content.text ?? "", this.text, disk.content.text);
    if (conflicts > 0) {
      this.conflict = { mine, theirs, count: conflicts, disk };
      return false;
    }
    this.base = disk;
    this.disk = null;
    this.replace(mine);
    this.note = t.files.merged;
    return true;
  }

  /** Reads the file. Returns whether it exists. Throws ApiError. */
  private async take(known?: string): Promise<boolean> {
    let read;
    try {
      read = await this.api.read(this.path, known);
    } catch (error) {
      if (error instanceof ApiError && error.code === "notFound") return false;
      throw error;
    }
    if (read === null) return true;
    this.sizeBytes = read.sizeBytes;
    const content = read.bytes !== null && read.mediaType === "text/plain" ? decode(read.bytes) : null;
    if (content !== null) {
      this.takeText({ version: read.version, content });
      this.isReadOnly = (read.sizeBytes ?? 0) > MAX_WRITTEN_BYTES;
      return true;
    }
    if (this.isDirty) {
      this.error = t.files.noTextNow;
      return true;
    }
    this.close();
    const isImage = read.bytes !== null && read.mediaType.startsWith("image/");
    if (isImage) this.imageUrl = URL.createObjectURL(new Blob([read.bytes!], { type: read.mediaType }));
    this.base = { version: read.version, content: EMPTY };
    this.state = isImage ? "image" : "unreadable";
    return true;
  }

  private takeText(found: Base): void {
    const isFirst = this.state !== "text";
    this.state = "text";
    if (isFirst || !this.isDirty || this.text === found.content.text) {
      this.base = found;
      this.disk = null;
      if (isFirst) {
        this.surface = this.editorState = null;
        this.generation += 1;
      }
      if (this.text === found.content.text) this.measure();
      else this.replace(found.content.text);
    } else {
      this.disk = found.version === this.base?.version ? null : found;
    }
  }

  private async readText(): Promise<Base | null> {
    let read;
    try {
      read = await this.api.read(this.path);
    } catch (error) {
      if (error instanceof ApiError && error.code === "notFound") return null;
      throw error;
    }
    const content = read?.bytes && read.mediaType === "text/plain" ? decode(read.bytes) : null;
    if (read === null || content === null) throw new Error(t.files.noTextNow);
    return { version: read.version, content };
  }

  private replace(text: string): void {
    this.plain = text;
    this.surface?.replace(text);
    this.measure();
  }

  private measure(): void {
    this.isDirty = this.base === null || this.text !== this.base.content.text;
    this.keepSoon();
  }

  private keepSoon(): void {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => void this.keepNow(), KEEP_MS);
  }
}
