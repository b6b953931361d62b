/** What is open beside a conversation, and what it was asked to show. Small: the panels themselves come when opened. */
import { createContext } from "svelte";

import type { Place } from "../files/file.svelte";
import { recall, recallSizes, remember, rememberSizes } from "./memory";

export type Panel = "files" | "terminal";

export class Desk {
  isFilesOpen = $state(false);
  isTerminalOpen = $state(false);
  isFinding = $state(false);
  /** Whether it was opened by its user, and not because it was open the last time. */
  isTerminalAsked = false;
  side = $state(0.58);
  bottom = $state(0.35);
  /** The file that shall be shown, until the panel has taken it. */
  wanted = $state.raw<{ path: string; place: Place | null } | null>(null);
  /** Names a file, or lines of it, where the prompt is written. The conversation gives this, and the next. */
  mention: (path: string, fromLine?: number, toLine?: number) => void = () => {};
  focusPrompt: () => void = () => {};

  constructor(readonly session: string) {
    const { isFilesOpen, isTerminalOpen } = recall(session);
    this.isFilesOpen = isFilesOpen;
    this.isTerminalOpen = isTerminalOpen;
    const { side, bottom } = recallSizes();
    this.side = side;
    this.bottom = bottom;
  }

  toggle(panel: Panel, isOpen = panel === "files" ? !this.isFilesOpen : !this.isTerminalOpen): void {
    if (panel === "files") this.isFilesOpen = isOpen;
    else this.isTerminalOpen = this.isTerminalAsked = isOpen;
    if (panel === "terminal" && !isOpen) this.focusPrompt();
    remember(this.session, { isFilesOpen: this.isFilesOpen, isTerminalOpen: this.isTerminalOpen });
  }

  /** Shows a file, at a place in it. `reference` may end with `:line`. */
  show(reference: string, place: Place | null = null): void {
    this.wanted = { ...parseReference(reference), ...(place === null ? {} : { place }) };
    this.toggle("files", true);
  }

  resize(sizes: { side?: number; bottom?: number }): void {
    this.side = sizes.side ?? this.side;
    this.bottom = sizes.bottom ?? this.bottom;
    rememberSizes(sizes);
  }
}

const REFERENCE = /^(.+?):(\d+)(?:[:-]\d+)?$/;

/** `src/a.py:12`, `src/a.py:12:5` and `src/a.py:12-30` are line 12 of src/a.py. */
export function parseReference(text: string): { path: string; place: Place | null } {
  const found = REFERENCE.exec(text.trim());
  const path = (found?.[1] ?? text.trim()).replace(/^(?:\.\/)+/, "");
  return { path, place: found === null ? null : { line: Number(found[2]) } };
}

/** Whether a piece of code in a text names a line of a file. */
export function isReference(text: string): boolean {
  return text.length <= 300 && /^[^\s:`'"<>]*[\w-]\.\w{1,12}:\d+(?:[:-]\d+)?$/.test(text) && !text.includes("//");
}

export const [useDesk, provideDesk] = createContext<Desk>();
