/** Shows two versions of a file in one editor. It marks each difference and lets the user choose a side. */
import { acceptChunk, getChunks, goToNextChunk, goToPreviousChunk, rejectChunk, unifiedMergeView } from "@codemirror/merge";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";

import { t } from "../text";
import { basics } from "./editor";
import { languageOf } from "./languages";

export interface CompareOptions {
  path: string;
  /** The text on disk: its lines are shown as removed. */
  theirs: string;
  /** The result, which the user can edit. */
  mine: string;
  /** Called with the number of undecided differences. */
  counted: (left: number) => void;
}

export class Comparison {
  readonly view: EditorView;
  private readonly language = new Compartment();

  constructor(parent: HTMLElement, options: CompareOptions) {
    const count = (state: EditorState) => options.counted(getChunks(state)?.chunks.length ?? 0);
    this.view = new EditorView({
      parent,
      doc: options.mine,
      extensions: [
        ...basics(t.files.comparisonOf(options.path)),
        EditorView.lineWrapping,
        this.language.of([]),
        unifiedMergeView({
          original: options.theirs,
          mergeControls: button,
          collapseUnchanged: { margin: 3, minSize: 8 },
          syntaxHighlightDeletions: false, // a parser needs a whole file
        }),
        EditorView.updateListener.of((update) => count(update.state)),
      ],
    });
    count(this.view.state);
    void this.colour(options.path);
  }

  get text(): string {
    return this.view.state.sliceDoc();
  }

  next(): void {
    goToNextChunk(this.view);
    this.view.focus();
  }

  previous(): void {
    goToPreviousChunk(this.view);
    this.view.focus();
  }

  /** Decides all open differences for one side. */
  decideAll(how: "accept" | "reject"): void {
    const decide = how === "accept" ? acceptChunk : rejectChunk;
    for (let left = getChunks(this.view.state)?.chunks ?? []; left.length > 0; ) {
      decide(this.view, left[0]!.fromB);
      const now = getChunks(this.view.state)?.chunks ?? [];
      if (now.length >= left.length) return; // a decision must remove one difference
      left = now;
    }
  }

  close(): void {
    this.view.destroy();
  }

  private async colour(path: string): Promise<void> {
    const support = await languageOf(path).catch(() => null);
    if (support !== null && this.view.dom.isConnected) this.view.dispatch({ effects: this.language.reconfigure(support) });
  }
}

function button(kind: "reject" | "accept", act: (event: MouseEvent) => void): HTMLElement {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = kind === "accept" ? t.files.keepMine : t.files.takeTheirs;
  made.addEventListener("click", act);
  return made;
}
