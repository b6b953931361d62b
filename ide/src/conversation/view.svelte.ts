/** The view state that the parts of one conversation share. */
import { createContext } from "svelte";

import { Comments } from "../review/comments.svelte";
import { mentionOf } from "./mentions";
import type { SessionView } from "./session.svelte";
import type { TurnView } from "./turn.svelte";

/** The actions that the page offers to the parts of a conversation. */
export interface PageActions {
  /** Replaces the text of the composer. */
  compose: (text: string) => void;
  /** Inserts a text into the composer at the caret. */
  insert: (text: string) => void;
  /** Opens the dialog that reverts to before a turn. */
  askRevert: (turn: TurnView) => void;
  /** Opens the review of a turn's changes, or of the newest changes. */
  review: (turn?: TurnView) => void;
}

export class View {
  /** Opens or closes all tool cards; null leaves each card as it is. */
  areToolsOpen = $state<boolean | null>(null);

  /** The comments on lines that the next prompt sends. */
  readonly comments: Comments;
  readonly compose: PageActions["compose"];
  readonly askRevert: PageActions["askRevert"];
  readonly review: PageActions["review"];
  private readonly insert: PageActions["insert"];

  constructor(
    readonly session: SessionView,
    actions: PageActions,
  ) {
    this.comments = new Comments(session.id);
    this.compose = actions.compose;
    this.askRevert = actions.askRevert;
    this.review = actions.review;
    this.insert = actions.insert;
  }

  /** Inserts a mention of a file, or of its lines (counted from 1), into the composer. */
  mention(path: string, fromLine?: number, toLine?: number): void {
    this.insert(mentionOf(path, fromLine, toLine));
  }
}

export const [useView, provideView] = createContext<View>();
