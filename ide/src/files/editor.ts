/** Configures CodeMirror. The page loads this module with the first opened file. */
import { defaultKeymap, history, historyField, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorSelection, EditorState, type Extension, type StateEffect } from "@codemirror/state";
import {
  crosshairCursor,
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  rectangularSelection,
  type ViewUpdate,
} from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";

import { t } from "../text";
import { difference, longestLine } from "./content";
import type { OpenFile, Place } from "./file.svelte";
import { languageOf } from "./languages";
import { theme } from "./theme";

const MAX_HIGHLIGHTED = 1_000_000; // characters: colours of a larger file take too long
const MAX_WRAPPED_LENGTH = 20_000; // characters of a line: wrapping a longer one takes longer than a frame

export interface EditorOptions {
  isWrapped: boolean;
  isReadOnly: boolean;
  save: () => void;
  /** Line and column, from 1. */
  moved: (line: number, column: number) => void;
}

/** The state of an editor while another tab is shown. */
interface SavedEditor {
  state: EditorState;
  scroll: StateEffect<unknown>;
}

/** The extensions that all editors share, also those of a comparison. */
export function basics(label: string): Extension[] {
  return [
    lineNumbers(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    syntaxHighlighting(classHighlighter),
    // Files with mixed line ends keep them: a `\r` is an ordinary character.
    EditorState.lineSeparator.of("\n"),
    EditorView.clipboardInputFilter.of((text) => text.replaceAll("\r\n", "\n")),
    EditorView.contentAttributes.of({ "aria-label": label, "aria-description": t.files.leaveEditor, spellcheck: "false" }),
    keymap.of([...defaultKeymap, ...historyKeymap, ...foldKeymap, ...searchKeymap, indentWithTab]),
    search({ top: true }),
    theme,
  ];
}

/** One file in an editor. Its state outlives the view, because the user can switch tabs. */
export class FileEditor {
  readonly view: EditorView;
  /** Whether the lines are short enough to wrap. */
  readonly canWrap: boolean;
  private readonly wrapping = new Compartment();
  private readonly access = new Compartment();
  private readonly language = new Compartment();
  private isFromOutside = false;

  constructor(
    parent: HTMLElement,
    private readonly file: OpenFile,
    private readonly options: EditorOptions,
  ) {
    const text = file.text;
    this.canWrap = longestLine(text) <= MAX_WRAPPED_LENGTH;
    const saved = file.editorState as SavedEditor | null;
    this.view = new EditorView({
      parent,
      state: saved === null ? EditorState.create({ doc: text, extensions: this.extensions() }) : this.renewed(saved.state),
      scrollTo: saved?.scroll,
    });
    this.replace(text); // the file may have changed while another tab was shown
    file.surface = { text: () => this.view.state.sliceDoc(), replace: (now) => this.replace(now) };
    if (text.length <= MAX_HIGHLIGHTED) void this.colour();
    this.tellPlace();
  }

  focus(): void {
    this.view.focus();
  }

  setWrapped(isWrapped: boolean): void {
    this.view.dispatch({ effects: this.wrapping.reconfigure(this.wrap(isWrapped)) });
  }

  setReadOnly(isReadOnly: boolean): void {
    this.view.dispatch({ effects: this.access.reconfigure(EditorState.readOnly.of(isReadOnly)) });
  }

  /** Scrolls to a place and puts the cursor there. */
  go({ line, text }: Place): void {
    if (line === undefined && text === undefined) return;
    const { doc } = this.view.state;
    const found = text === undefined ? -1 : doc.toString().indexOf(text);
    const at = found >= 0 ? found : doc.line(Math.max(1, Math.min(line ?? 1, doc.lines))).from;
    this.view.dispatch({
      selection: EditorSelection.cursor(at),
      effects: EditorView.scrollIntoView(at, { y: "center" }),
    });
  }

  close(): void {
    const { file, view } = this;
    const text = view.state.sliceDoc();
    file.editorState = { state: view.state, scroll: view.scrollSnapshot() } satisfies SavedEditor;
    file.leave(text);
    view.destroy();
  }

  /** Returns a state with the undo history of `saved` and the listeners of this view. */
  private renewed(saved: EditorState): EditorState {
    const fields = { history: historyField };
    return EditorState.fromJSON(saved.toJSON(fields), { extensions: this.extensions() }, fields);
  }

  private extensions(): Extension[] {
    const { options } = this;
    return [
      keymap.of([{ key: "Mod-s", preventDefault: true, run: () => (options.save(), true) }]),
      ...basics(t.files.editorOf(this.file.path)),
      foldGutter(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      highlightSelectionMatches(),
      rectangularSelection(),
      crosshairCursor(),
      EditorState.allowMultipleSelections.of(true),
      this.wrapping.of(this.wrap(options.isWrapped)),
      this.access.of(EditorState.readOnly.of(options.isReadOnly)),
      this.language.of([]),
      EditorView.updateListener.of((update) => this.updated(update)),
    ];
  }

  private wrap(isWrapped: boolean): Extension {
    return isWrapped && this.canWrap ? EditorView.lineWrapping : [];
  }

  private async colour(): Promise<void> {
    const support = await languageOf(this.file.path).catch(() => null);
    if (support !== null && this.view.dom.isConnected) this.view.dispatch({ effects: this.language.reconfigure(support) });
  }

  private updated(update: ViewUpdate): void {
    if (update.docChanged && !this.isFromOutside) {
      const { doc } = update.state;
      const onDisk = this.file.base?.content.text;
      this.file.edited(onDisk !== undefined && doc.length === onDisk.length && doc.toString() === onDisk);
    }
    if (update.docChanged || update.selectionSet) this.tellPlace();
  }

  private replace(text: string): void {
    const change = difference(this.view.state.sliceDoc(), text);
    if (change.from === change.to && change.insert === "") return;
    this.isFromOutside = true;
    try {
      this.view.dispatch({ changes: change, userEvent: "set" });
    } finally {
      this.isFromOutside = false;
    }
  }

  private tellPlace(): void {
    const { head } = this.view.state.selection.main;
    const line = this.view.state.doc.lineAt(head);
    this.options.moved(line.number, head - line.from + 1);
  }
}
