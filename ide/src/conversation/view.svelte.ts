/** How one conversation is shown, for all its parts. */
import { createContext } from "svelte";

import { Comments } from "../review/comments.svelte";
import { mentionOf } from "./mentions";
import type { SessionView } from "./session.svelte";
import type { TurnView } from "./turn.svelte";

/** What a conversation's parts ask of the page that they are on. */
export interface Asks {
  /** Puts a text into the composer, in the place of what is there. */
  compose: (text: string) => void;
  /** Puts a text into the composer where the caret is. */
  insert: (text: string) => void;
  /** Asks whether to go back to before a turn. */
  askRevert: (turn: TurnView) => void;
  /** Opens the review: of a turn's changes, or of the newest ones. */
  review: (turn?: TurnView) => void;
}

export class View {
  /** Set: every tool card is open, or closed. */
  areToolsOpen = $state<boolean | null>(null);

  /** What was said of lines, and goes with the next prompt. */
  readonly comments: Comments;
  readonly compose: Asks["compose"];
  readonly askRevert: Asks["askRevert"];
  readonly review: Asks["review"];
  private readonly insert: Asks["insert"];

  constructor(
    readonly session: SessionView,
    asks: Asks,
  ) {
    this.comments = new Comments(session.id);
    this.compose = asks.compose;
    this.askRevert = asks.askRevert;
    this.review = asks.review;
    this.insert = asks.insert;
  }

  /** Names a file, or lines of it from 1, in the prompt that is being written. */
  mention(path: string, fromLine?: number, toLine?: number): void {
    this.insert(mentionOf(path, fromLine, toLine));
  }
}

export const [useView, provideView] = createContext<View>();
