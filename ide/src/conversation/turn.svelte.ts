/** Builds the view of a turn from its events. Live streams, replays and stored events give the same view. */
import { isOver } from "../api/turn-status";
import type {
  ChatTurn,
  Compacted,
  FileChange,
  Inquiry,
  Notice,
  Step,
  Steered,
  ToolCall,
  ToolStarted,
  TurnEvent,
} from "../api/types";
import { StreamText } from "./stream-text.svelte";
import { editsOf, type Params, type TodoEntry, todoOf } from "./tools";
import { tally } from "../diff/lines";

const NO_USAGE = { inputTokens: 0, cachedInputTokens: 0, thinkingTokenCount: 0, responseTokens: 0 };
const INQUIRY_DEFAULTS = {
  ...{ status: "pending" as const, detail: "", isDiff: false, choices: [], takesText: false, verdicts: [], rule: null },
  ...{ answer: null, answeredAt: null },
};
const MAX_OUTPUT = 100_000; // characters of live output; the result has the rest

export class ModelTextItem {
  readonly kind: "thinking" | "text";
  readonly text = new StreamText();
  constructor(
    readonly id: number,
    kind: "thinking" | "text",
    readonly startedAt: string,
  ) {
    this.kind = kind;
  }
}

export type ToolState = "running" | "done" | "failed" | "denied" | "unknown";

export class ToolItem {
  readonly kind = "tool";
  state = $state<ToolState>("running");
  /** The output so far. */
  output = $state("");
  isOutputCut = $state(false);
  result = $state.raw<ToolCall | null>(null);
  readonly callId: string;
  readonly name: string;
  readonly params: Params;
  readonly startedAt: string;

  constructor(
    readonly id: number,
    event: ToolStarted | ToolCall,
  ) {
    this.callId = event.callId;
    this.name = event.name;
    this.params = event.params;
    this.startedAt = event.at;
  }

  print(piece: string): void {
    const all = this.output + piece;
    this.isOutputCut ||= all.length > MAX_OUTPUT;
    this.output = all.slice(-MAX_OUTPUT);
  }

  end(event: ToolCall): void {
    this.result = event;
    this.state = event.denied ? "denied" : event.isError ? "failed" : "done";
  }
}

export class InquiryItem {
  readonly kind = "inquiry";
  inquiry = $state.raw<Inquiry>() as Inquiry;
  constructor(
    readonly id: number,
    inquiry: Inquiry,
  ) {
    this.inquiry = inquiry;
  }
}

export type Item =
  | ModelTextItem
  | ToolItem
  | InquiryItem
  | { kind: "step"; id: number; step: Step }
  | { kind: "notice"; id: number; notice: Notice }
  | { kind: "steered"; id: number; steered: Steered }
  | { kind: "compacted"; id: number; compacted: Compacted };

export interface ChangedFile {
  path: string;
  status: string;
  added: number | null;
  removed: number | null;
}

export class TurnView {
  doc = $state.raw<ChatTurn>() as ChatTurn;
  items = $state.raw<Item[]>([]);
  todo = $state.raw<TodoEntry[] | null>(null);
  changed = $state.raw<ChangedFile[]>([]);
  /** Tokens in the context: the input and output of the last model call. */
  contextTokens = $state<number | null>(null);
  /** Where the content comes from: the live stream, the stored events, or nowhere yet. */
  source = $state<"none" | "loading" | "stored" | "stream">("none");
  loadError = $state<string | null>(null);
  /** Whether the drone makes checkpoints. If so, the service can return a diff of the turn. */
  hasCheckpoints = $state(false);

  private nextId = 0;
  private openTexts: { thinking: ModelTextItem | null; text: ModelTextItem | null } = { thinking: null, text: null };
  private tools = new Map<string, ToolItem>();
  /** The events of a running turn, for `rewind`. */
  private events: TurnEvent[] = [];

  constructor(doc: ChatTurn) {
    this.doc = doc;
  }

  get id(): string {
    return this.doc._id;
  }

  get isOver(): boolean {
    return isOver(this.doc);
  }

  /** Replaces the document of the turn, unless `doc` is older. */
  update(doc: ChatTurn): void {
    const isOlder = doc.epoch < this.doc.epoch || (doc.epoch === this.doc.epoch && doc.lastSeq < this.doc.lastSeq);
    if (isOlder && !(isOver(doc) && !this.isOver)) return;
    if (this.isOver && !isOver(doc)) return;
    this.doc = doc;
    if (this.isOver) this.settle();
  }

  apply(event: TurnEvent): void {
    if (this.source !== "stream") {
      this.clear();
      this.source = "stream";
    }
    if (!this.isOver) this.events.push(event);
    this.show(event);
  }

  /** Drops the events from `seq` on: events of a later epoch replace them. */
  rewind(seq: number): void {
    const kept = this.events.filter((event) => event.seq < seq);
    this.clear();
    this.events = kept;
    for (const event of kept) this.show(event);
  }

  /** Shows the stored events. Does nothing if live events are shown already. */
  load(events: TurnEvent[]): void {
    if (this.source === "stream") return;
    this.clear();
    for (const event of events) this.show(event);
    this.settle();
    this.source = "stored";
  }

  inquiry(id: string): InquiryItem | null {
    return this.items.find((item): item is InquiryItem => item.kind === "inquiry" && item.inquiry._id === id) ?? null;
  }

  /** Adds or updates a question that did not come as an event of the turn. */
  putInquiry(given: Inquiry): void {
    // A drone leaves out fields that have their default value.
    const inquiry = { ...INQUIRY_DEFAULTS, ...given };
    const known = this.inquiry(inquiry._id);
    if (known !== null) known.inquiry = inquiry;
    else if (inquiry.status === "pending") this.add(new InquiryItem(this.nextId++, inquiry));
  }

  private clear(): void {
    this.items = [];
    this.todo = null;
    this.changed = [];
    this.openTexts = { thinking: null, text: null };
    this.tools.clear();
    this.events = [];
    this.hasCheckpoints = false;
  }

  private add(item: Item): void {
    this.items = [...this.items, item];
  }

  private modelText(kind: "thinking" | "text", since: string): ModelTextItem {
    const open = this.openTexts[kind];
    if (open !== null) return open;
    const made = new ModelTextItem(this.nextId++, kind, since);
    this.openTexts[kind] = made;
    // Thinking stands before the answer, also if its first delta arrives later.
    const at = kind === "thinking" && this.openTexts.text !== null ? this.items.indexOf(this.openTexts.text) : this.items.length;
    this.items = this.items.toSpliced(at, 0, made);
    return made;
  }

  private show(event: TurnEvent): void {
    switch (event.type) {
      case "thinking":
        this.modelText("thinking", event.at).text.push(event.content);
        break;
      case "response":
        this.openTexts.thinking?.text.finish();
        this.modelText("text", event.at).text.push(event.content);
        break;
      case "step":
        this.endStep(event);
        break;
      case "toolStarted":
        this.tool(event);
        break;
      case "toolOutput":
        this.tools.get(event.callId)?.print(event.content);
        break;
      case "toolCall": {
        const tool = this.tool(event);
        tool.end(event);
        if (!event.isError && !event.denied) this.noteChanges(tool);
        break;
      }
      case "steered":
        this.add({ kind: "steered", id: this.nextId++, steered: event });
        break;
      case "notice":
        this.add({ kind: "notice", id: this.nextId++, notice: event });
        break;
      case "compacted":
        this.add({ kind: "compacted", id: this.nextId++, compacted: event });
        this.contextTokens = event.tokensAfter;
        break;
      case "inquiryAsked":
        this.placeInquiry(event.inquiry);
        break;
      case "inquiryAnswered": {
        const item = this.inquiry(event.answer.inquiryId);
        if (item !== null) {
          item.inquiry = { ...item.inquiry, status: event.answer.status, answer: event.answer.answer };
        }
        break;
      }
      case "checkpoint":
        this.noteCheckpoint(event.checkpoint.files ?? []);
        break;
      case "titled":
        break; // the session's name comes with the session
      case "workOrderComplete":
        this.doc = {
          ...this.doc,
          status: event.status,
          stats: { ...this.doc.stats, ...event.stats },
          error: event.error ?? null,
          waiting: null,
        };
        this.settle();
        break;
      default:
        event satisfies never; // svelte-check fails on an event without a case; one of a newer service is ignored
    }
  }

  private tool(event: ToolStarted | ToolCall): ToolItem {
    const known = this.tools.get(event.callId);
    if (known !== undefined) return known;
    const made = new ToolItem(this.nextId++, event);
    this.tools.set(event.callId, made);
    this.add(made);
    const todo = todoOf(event.name, event.params);
    if (todo !== null) this.todo = todo;
    return made;
  }

  private endStep(event: Step): void {
    // A drone leaves out counts that are zero.
    const step = { ...event, usage: { ...NO_USAGE, ...event.usage } };
    const { thinking = "", content = "" } = step.message;
    if (thinking !== "") this.modelText("thinking", step.at).text.finish(thinking);
    if (content !== "") this.modelText("text", step.at).text.finish(content);
    this.openTexts.thinking?.text.finish();
    this.openTexts.text?.text.finish();
    this.openTexts = { thinking: null, text: null };
    this.contextTokens = step.usage.inputTokens + step.usage.responseTokens;
    this.add({ kind: "step", id: this.nextId++, step });
  }

  /** Puts the question at this place, also if it was shown earlier at another one. */
  private placeInquiry(inquiry: Inquiry): void {
    const known = this.inquiry(inquiry._id);
    if (known === null) this.putInquiry(inquiry);
    else this.items = [...this.items.filter((item) => item !== known), known];
  }

  private noteChanges(tool: ToolItem): void {
    if (this.hasCheckpoints) return;
    for (const edit of editsOf(tool.name, tool.params)) {
      this.noteFile({ path: edit.path, status: "modified", ...tally(edit.lines) });
    }
  }

  private noteCheckpoint(files: FileChange[]): void {
    if (!this.hasCheckpoints) this.changed = [];
    this.hasCheckpoints = true;
    for (const file of files) this.noteFile({ ...file, added: file.added ?? null, removed: file.removed ?? null });
  }

  private noteFile(file: ChangedFile): void {
    if (file.path === "") return;
    const before = this.changed.find((known) => known.path === file.path);
    const sum = (a: number | null, b: number | null) => (a === null && b === null ? null : (a ?? 0) + (b ?? 0));
    const now: ChangedFile = {
      path: file.path,
      status: before?.status === "added" ? "added" : file.status,
      added: before ? sum(before.added, file.added) : file.added,
      removed: before ? sum(before.removed, file.removed) : file.removed,
    };
    this.changed = before ? this.changed.map((known) => (known === before ? now : known)) : [...this.changed, now];
  }

  /** Ends everything that still runs in the view, because the turn is over. */
  private settle(): void {
    this.openTexts.thinking?.text.finish();
    this.openTexts.text?.text.finish();
    for (const tool of this.tools.values()) if (tool.state === "running") tool.state = "unknown";
    for (const item of this.items) {
      if (item.kind !== "inquiry" || item.inquiry.status !== "pending") continue;
      item.inquiry = { ...item.inquiry, status: "withdrawn" }; // the turn no longer waits for the answer
    }
    this.events = [];
  }
}
