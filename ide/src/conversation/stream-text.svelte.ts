/** A text that the model is writing, split into rendered blocks. */
import { type Block, GrowingMarkdown, type Tail } from "../markdown/blocks";

const LONG_TAIL = 8192; // characters; each delta renders the tail again
const LONG_TAIL_MS = 100;

export class StreamText {
  frozen = $state.raw<Block[]>([]);
  tail = $state.raw<Tail>({ source: "", fence: null });
  /** Whether the text is complete. */
  isDone = $state(false);
  /** The whole text. Not reactive: for copying and comparing. */
  text = "";

  private growing = new GrowingMarkdown();
  private held = "";
  private heldSince = 0;

  push(piece: string): void {
    this.text += piece;
    this.held += piece;
    this.isDone = false;
    const isLong = this.growing.tail.source.length > LONG_TAIL;
    const now = performance.now();
    if (isLong && now - this.heldSince < LONG_TAIL_MS) return;
    this.heldSince = now;
    this.take();
  }

  /** Ends the text. `whole` replaces it if given: a step holds the complete text. */
  finish(whole?: string): void {
    if (this.isDone && (whole === undefined || whole === this.text)) return;
    if (whole?.startsWith(this.text)) {
      this.held += whole.slice(this.text.length);
      this.text = whole;
    } else if (whole !== undefined) {
      this.growing = new GrowingMarkdown(this.growing.nextId);
      this.text = whole;
      this.held = whole;
    }
    this.take();
    this.growing.end();
    this.isDone = true;
    this.show();
  }

  private take(): void {
    if (this.held === "") return;
    this.growing.push(this.held);
    this.held = "";
    this.show();
  }

  private show(): void {
    if (this.frozen !== this.growing.frozen) this.frozen = this.growing.frozen;
    if (this.tail !== this.growing.tail) this.tail = this.growing.tail;
  }
}
