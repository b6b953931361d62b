/** The panels beside a conversation: which are open, and what they show. The page loads a panel's code when it opens. */
import { createContext } from "svelte";

import type { Place } from "../files/file.svelte";
import { recall, recallSizes, remember, rememberSizes } from "./memory";

export type Panel = "files" | "terminal";

export class Panels {
  isFilesOpen = $state(false);
  isTerminalOpen = $state(false);
  isFinding = $state(false);
  /** Whether the user opened the terminal, and it was not just restored. */
  isTerminalAsked = false;
  side = $state(0.58);
  bottom = $state(0.35);
  /** The file to show, until the files panel has opened it. */
  requestedFile = $state.raw<{ path: string; place: Place | null } | null>(null);
  /** Inserts a mention of a file, or of its lines, into the prompt. The conversation sets this and `focusPrompt`. */
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

  /** Shows a file at a place. `reference` can end with `:line`. */
  show(reference: string, place: Place | null = null): void {
    this.requestedFile = { ...parseReference(reference), ...(place === null ? {} : { place }) };
    this.toggle("files", true);
  }

  resize(sizes: { side?: number; bottom?: number }): void {
    this.side = sizes.side ?? this.side;
    this.bottom = sizes.bottom ?? this.bottom;
    rememberSizes(sizes);
  }
}

const REFERENCE = /^(.+?):(\d+)(?:[:-]\d+)?$/;

/** Parses a reference: `src/a.py:12`, `src/a.py:12:5` and `src/a.py:12-30` are line 12 of src/a.py. */
export function parseReference(text: string): { path: string; place: Place | null } {
  const found = REFERENCE.exec(text.trim());
  const path = (found?.[1] ?? text.trim()).replace(/^(?:\.\/)+/, "");
  return { path, place: found === null ? null : { line: Number(found[2]) } };
}

/** Whether inline code names a line of a file. */
export function isReference(text: string): boolean {
  return text.length <= 300 && /^[^\s:`'"<>]*[\w-]\.\w{1,12}:\d+(?:[:-]\d+)?$/.test(text) && !text.includes("//");
}

export const [usePanels, providePanels] = createContext<Panels>();
