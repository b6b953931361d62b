/**
 * What a terminal said, in order and each byte once, however often the connection is lost: offsets count bytes from the
 * terminal's start. Where some are missing - they were said while nobody was there, or this page read too slowly - it
 * is attached to again, and told what is kept; where that does not follow what is shown, it is shown anew.
 */
import { fromLine } from "./bytes";

export interface Said {
  offset: number;
  data: Uint8Array;
}

export interface Shown {
  write(data: Uint8Array): void;
  /** What was said before, and is not to be answered again; `isAnew`: in place of all that is shown. */
  replay(data: Uint8Array, isAnew: boolean): void;
}

const MAX_HELD = 64;

export class TerminalStream {
  /** Up to here everything is shown. */
  end = 0;
  private asked = 0;
  private isAsking = false;
  private held: Said[] = [];

  /** `ask` attaches, and answers what is kept from byte `after` on; `onFailure` is told why that did not work. */
  constructor(
    private readonly ask: (after: number) => Promise<Said>,
    private readonly shown: Shown,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  /** Attaches, or attaches again: at once, even while an earlier attempt waits for an answer that cannot come. */
  async attach(): Promise<void> {
    const own = ++this.asked;
    this.isAsking = true;
    this.held = [];
    let said: Said;
    try {
      said = await this.ask(this.end);
    } catch (error) {
      if (own === this.asked) {
        this.isAsking = false;
        this.onFailure(error);
      }
      return;
    }
    if (own !== this.asked) return;
    this.isAsking = false;
    const follows = said.offset === this.end;
    if (!follows || said.data.length) {
      this.shown.replay(follows || said.offset === 0 ? said.data : fromLine(said.data), !follows);
    }
    this.end = said.offset + said.data.length;
    const held = this.held;
    this.held = [];
    for (const one of held) this.take(one);
  }

  /** Output as it comes, live. */
  take(said: Said): void {
    if (this.isAsking) {
      // It may come before the answer that it follows.
      this.held.push(said);
      if (this.held.length > MAX_HELD) this.held.shift(); // seen as a gap then
      return;
    }
    if (said.offset > this.end) {
      void this.attach();
      return;
    }
    const fresh = said.data.subarray(this.end - said.offset);
    if (!fresh.length) return;
    this.shown.write(fresh);
    this.end += fresh.length;
  }

  /** The drone has sent so many bytes: attaches again when they did not arrive. */
  expect(length: number): void {
    if (!this.isAsking && length > this.end) void this.attach();
  }

  /** What still comes is for nobody. */
  stop(): void {
    this.asked++;
    this.isAsking = true;
    this.held = [];
  }
}
