/** The tree of the project's directories. Each is loaded when it is first opened, and again after changes. */
import { SvelteMap, SvelteSet } from "svelte/reactivity";

import type { FilesApi } from "../api/files";
import { errorText } from "../api/http";
import type { FileEntry } from "../api/types";

export interface Row {
  entry: FileEntry;
  /** From 1. */
  level: number;
  /** The position among its siblings, from 1. */
  position: number;
  siblings: number;
  isOpen: boolean;
  isLoading: boolean;
  /** Why the directory could not be listed. */
  error: string | null;
  /** Whether the list is incomplete. */
  isCut: boolean;
}

interface Directory {
  entries: readonly FileEntry[];
  isCut: boolean;
}

const TYPED_MS = 800; // letters typed faster than this form one search

export class Tree {
  /** The path that the keys act on; empty at first. */
  active = $state("");
  private readonly listed = new SvelteMap<string, Directory>();
  private readonly failed = new SvelteMap<string, string>();
  private readonly loading = new SvelteSet<string>();
  private readonly open = new SvelteSet<string>([""]);
  private typed = { text: "", at: 0 };

  readonly rows: Row[] = $derived(this.rowsOf("", 1));

  constructor(private readonly api: Pick<FilesApi, "list">) {}

  get isListed(): boolean {
    return this.listed.has("");
  }

  isOpen(path: string): boolean {
    return this.open.has(path);
  }

  /** Lists every open directory again. Throws ApiError if the root cannot be listed. */
  async refresh(): Promise<void> {
    await this.fetch("");
    const others = [...this.open].filter((path) => path !== "" && this.listed.has(path));
    await Promise.all(others.map((path) => this.fetch(path).catch(() => undefined)));
  }

  /** Lists the directories of these files again. */
  async refreshAround(paths: readonly string[]): Promise<void> {
    const wanted = new Set<string>();
    // The listing of the parent shows a new directory.
    for (const path of paths) for (let at = parentOf(path); !wanted.has(at); at = parentOf(at)) wanted.add(at);
    const known = [...wanted].filter((path) => this.listed.has(path));
    await Promise.all(known.map((path) => this.fetch(path).catch(() => undefined)));
  }

  async toggle(path: string): Promise<void> {
    if (this.open.has(path)) this.open.delete(path);
    else await this.expand(path);
  }

  async expand(path: string): Promise<void> {
    this.open.add(path);
    if (!this.listed.has(path)) await this.fetch(path).catch(() => undefined);
  }

  collapseAll(): void {
    this.open.clear();
    this.open.add("");
  }

  /** Opens the directories above a path, and makes the path active. */
  async reveal(path: string): Promise<void> {
    const parts = path.split("/");
    for (let n = 1; n < parts.length; n++) await this.expand(parts.slice(0, n).join("/"));
    this.active = path;
  }

  entry(path: string): FileEntry | undefined {
    return this.listed.get(parentOf(path))?.entries.find((entry) => entry.path === path);
  }

  /** Handles a key, and returns whether it did. The view handles Enter. */
  press(key: string, now = Date.now()): boolean {
    const { rows } = this;
    const at = rows.findIndex((row) => row.entry.path === this.active);
    const row = rows[at];
    const to = (n: number) => {
      this.active = rows[Math.max(0, Math.min(n, rows.length - 1))]?.entry.path ?? "";
    };
    switch (key) {
      case "ArrowDown":
        to(at + 1);
        break;
      case "ArrowUp":
        to(at < 0 ? 0 : at - 1);
        break;
      case "Home":
        to(0);
        break;
      case "End":
        to(rows.length - 1);
        break;
      case "ArrowRight":
        if (row?.entry.isDirectory !== true) break;
        if (!row.isOpen) void this.expand(row.entry.path);
        else if (rows[at + 1] !== undefined && rows[at + 1]!.level > row.level) to(at + 1);
        break;
      case "ArrowLeft":
        if (row?.isOpen) this.open.delete(row.entry.path);
        else if (row !== undefined && row.level > 1) this.active = parentOf(row.entry.path);
        break;
      case "*":
        for (const one of rows) if (one.level === row?.level && one.entry.isDirectory) void this.expand(one.entry.path);
        break;
      default:
        if (key.length !== 1 || key === " ") return false;
        this.typeAhead(key, now);
    }
    return true;
  }

  private typeAhead(key: string, now: number): void {
    const { rows } = this;
    const isSame = now - this.typed.at < TYPED_MS;
    const text = (isSame ? this.typed.text : "") + key.toLowerCase();
    this.typed = { text, at: now };
    const at = Math.max(0, rows.findIndex((row) => row.entry.path === this.active));
    // A repeated letter moves to the next match; several letters can still match the current one.
    const isOneLetter = new Set(text).size === 1;
    const wanted = isOneLetter ? text[0]! : text;
    const from = isOneLetter ? at + 1 : at;
    const ordered = [...rows.slice(from), ...rows.slice(0, from)];
    const found = ordered.find((row) => row.entry.name.toLowerCase().startsWith(wanted));
    if (found !== undefined) this.active = found.entry.path;
  }

  private async fetch(path: string): Promise<void> {
    this.loading.add(path);
    try {
      const { entries, truncated } = await this.api.list(path);
      this.listed.set(path, { entries, isCut: truncated });
      this.failed.delete(path);
    } catch (error) {
      this.failed.set(path, errorText(error));
      throw error;
    } finally {
      this.loading.delete(path);
    }
  }

  private rowsOf(path: string, level: number): Row[] {
    const directory = this.listed.get(path);
    if (directory === undefined) return [];
    const siblings = directory.entries.length;
    return directory.entries.flatMap((entry, n) => {
      const isOpen = entry.isDirectory && this.open.has(entry.path);
      const row: Row = {
        entry,
        level,
        position: n + 1,
        siblings,
        isOpen,
        isLoading: this.loading.has(entry.path),
        error: this.failed.get(entry.path) ?? null,
        isCut: this.listed.get(entry.path)?.isCut ?? false,
      };
      return isOpen ? [row, ...this.rowsOf(entry.path, level + 1)] : [row];
    });
  }
}

export function parentOf(path: string): string {
  const at = path.lastIndexOf("/");
  return at < 0 ? "" : path.slice(0, at);
}
