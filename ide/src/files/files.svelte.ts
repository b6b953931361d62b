/** The files of one session: the tree, the changes and the tabs. It outlives the panel that shows it. */
import { downloadFile, type FilesApi, filesOf } from "../api/files";
import { ApiError, errorText } from "../api/http";
import * as resources from "../api/resources";
import type { Diff, FileEntry } from "../api/types";
import { recall, remember } from "../workbench/memory";
import { BrowserShelf, FileDrafts } from "./drafts";
import { OpenFile, type Place } from "./file.svelte";
import { parentOf, Tree } from "./tree.svelte";

const MAX_TABS = 30;
const MAX_RECENT = 50;
const SETTLE_MS = 250; // changes arrive in groups

export interface Problem {
  code: ApiError["code"] | null;
  message: string;
}

export class Files {
  readonly tree: Tree;
  tabs = $state.raw<OpenFile[]>([]);
  active = $state.raw<OpenFile | null>(null);
  /** The uncommitted changes: their kind by path. */
  changed = $state.raw<ReadonlyMap<string, string>>(new Map());
  changedError = $state<string | null>(null);
  /** Why the files cannot be listed. */
  problem = $state.raw<Problem | null>(null);
  isLoading = $state(false);
  recent = $state.raw<string[]>([]);
  private settling: ReturnType<typeof setTimeout> | undefined;
  private touchedPaths = new Set<string>();
  private isAgain = false;

  constructor(
    readonly session: string,
    readonly api: FilesApi,
    private readonly drafts: FileDrafts,
    private readonly uncommitted: () => Promise<Diff>,
  ) {
    this.tree = new Tree(api);
    this.recent = recall(session).recent;
  }

  static of(session: string): Files {
    return new Files(session, filesOf(session), new FileDrafts(new BrowserShelf()), () =>
      resources.sessionDiff(session, "uncommitted"),
    );
  }

  /** Opens the files that were open when the page closed, and those with a draft. */
  async restore(): Promise<void> {
    const { tabs, active } = recall(this.session);
    const drafted = await this.drafts.paths(this.session);
    for (const path of new Set([...tabs, ...drafted])) this.add(path);
    const wanted = this.tabs.find((tab) => tab.path === active) ?? this.tabs[0] ?? null;
    if (this.active === null) this.activate(wanted);
    // The other files are read when they are shown, but a draft marks its tab at once.
    for (const path of drafted) void this.tab(path)?.load();
  }

  /** Refreshes the tree, the changes and the open files. */
  async refresh(): Promise<void> {
    if (this.isLoading) {
      this.isAgain = true;
      return;
    }
    this.isLoading = true;
    try {
      await this.tree.refresh();
      this.problem = null;
      this.lookAtTabs();
      await this.readChanged();
    } catch (error) {
      this.problem = { code: error instanceof ApiError ? error.code : null, message: errorText(error) };
    } finally {
      this.isLoading = false;
      if (this.isAgain) {
        this.isAgain = false;
        void this.refresh();
      }
    }
  }

  /** Refreshes paths that the agent changed: soon, and all together. */
  touched(paths: readonly string[]): void {
    for (const path of paths) this.touchedPaths.add(path);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => void this.settle(), SETTLE_MS);
  }

  /** Opens a file, or switches to its tab. */
  open(path: string, place: Place | null = null): OpenFile {
    const file = this.tab(path) ?? this.add(path);
    if (place !== null) file.place = place;
    this.activate(file);
    this.recent = [path, ...this.recent.filter((other) => other !== path)].slice(0, MAX_RECENT);
    this.remember();
    void this.tree.reveal(path);
    return file;
  }

  activate(file: OpenFile | null): void {
    this.active = file;
    if (file !== null) {
      file.isFocusWanted = false;
      if (file.state === "loading" || file.state === "failed") void file.load();
      else void file.look();
    }
    this.remember();
  }

  /** Switches `by` tabs to the right, and wraps around at the ends. */
  step(by: number): void {
    const at = this.active === null ? 0 : this.tabs.indexOf(this.active);
    if (this.tabs.length) this.activate(this.tabs[(at + by + this.tabs.length) % this.tabs.length]!);
  }

  /** Closes a tab. Unsaved text stays as a draft, unless it was discarded first. */
  async close(file: OpenFile): Promise<void> {
    await file.keepNow();
    const at = this.tabs.indexOf(file);
    this.tabs = this.tabs.filter((other) => other !== file);
    file.close();
    if (this.active === file) this.activate(this.tabs[Math.min(at, this.tabs.length - 1)] ?? null);
    this.remember();
  }

  /** Creates an empty file. Throws ApiError. */
  async create(path: string): Promise<OpenFile> {
    await this.api.save(path, new Uint8Array(), null);
    await this.tree.refreshAround([path]);
    this.touched([path]);
    return this.open(path);
  }

  /** Throws ApiError. */
  async rename(path: string, to: string): Promise<void> {
    await this.api.rename(path, to);
    for (const file of this.tabs) {
      if (file.path === path) await file.moved(to);
      else if (file.path.startsWith(`${path}/`)) await file.moved(to + file.path.slice(path.length));
    }
    await this.tree.refreshAround([path, to]);
    await this.tree.reveal(to);
    this.touched([path, to]);
    this.remember();
  }

  /** Deletes a file or a directory. Throws ApiError `fileChanged` if it changed since it was listed. */
  async remove(entry: Pick<FileEntry, "path" | "kind">): Promise<void> {
    const { path } = entry;
    if (entry.kind === "directory") {
      await this.api.remove(path, { recursive: true });
    } else {
      const version = this.tab(path)?.base?.version ?? (await this.api.read(path))?.version;
      await this.api.remove(path, { version });
    }
    for (const file of this.tabs.filter((tab) => tab.path === path || tab.path.startsWith(`${path}/`))) {
      await file.discard();
      await this.close(file);
    }
    await this.tree.refreshAround([path]);
    this.touched([path]);
  }

  download(path: string): Promise<void> {
    return downloadFile(this.session, path);
  }

  /** Stores all drafts now. */
  async keepAll(): Promise<void> {
    await Promise.all(this.tabs.filter((tab) => tab.isDirty).map((tab) => tab.keepNow()));
  }

  private tab(path: string): OpenFile | undefined {
    return this.tabs.find((tab) => tab.path === path);
  }

  private add(path: string): OpenFile {
    const known = this.tab(path);
    if (known !== undefined) return known;
    const file = new OpenFile(this.session, path, this.api, this.drafts);
    const settled = this.tabs.find((tab) => !tab.isDirty && tab !== this.active);
    if (this.tabs.length >= MAX_TABS && settled !== undefined) void this.close(settled);
    this.tabs = [...this.tabs, file];
    return file;
  }

  private async settle(): Promise<void> {
    const paths = [...this.touchedPaths];
    this.touchedPaths.clear();
    await this.tree.refreshAround(paths);
    this.lookAtTabs();
    await this.readChanged();
  }

  private lookAtTabs(): void {
    for (const tab of this.tabs) {
      if (tab.state === "failed" && tab === this.active) void tab.load();
      else if (tab.state !== "loading") void tab.look();
    }
  }

  private async readChanged(): Promise<void> {
    try {
      const { files } = await this.uncommitted();
      this.changed = new Map(files.map((file) => [file.path, file.status]));
      this.changedError = null;
    } catch (error) {
      this.changedError = errorText(error);
    }
  }

  private remember(): void {
    const tabs = this.tabs.map((tab) => tab.path);
    remember(this.session, { tabs, active: this.active?.path ?? null, recent: this.recent });
  }
}

/** Returns the directory that a new file goes to: the selected one, or that of the selected file. */
export function directoryFor(entry: FileEntry | undefined): string {
  if (entry === undefined) return "";
  return entry.isDirectory ? entry.path : parentOf(entry.path);
}
