/**
 * Receives the output of a terminal: in order and each byte once, also across lost connections. Offsets count bytes from
 * the start of the terminal. If bytes are missing, because nobody was attached or the page read too slowly, it attaches
 * again and gets the stored output. If that does not continue the shown output, it clears the terminal first.
 */
import { fromLine } from "./bytes";

export interface Output {
  offset: number;
  data: Uint8Array;
}

export interface OutputTarget {
  write(data: Uint8Array): void;
  /** Writes stored output, whose queries must not be answered again. `isAnew`: clear the terminal first. */
  replay(data: Uint8Array, isAnew: boolean): void;
}

const MAX_HELD = 64;

export class TerminalStream {
  /** The offset up to which all output is shown. */
  end = 0;
  private latestRequest = 0;
  private isAsking = false;
  private held: Output[] = [];

  /** `ask` attaches and returns the stored output from byte `after` on. `onFailure` gets the error if it fails. */
  constructor(
    private readonly ask: (after: number) => Promise<Output>,
    private readonly target: OutputTarget,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  /** Attaches (again) at once, also while an earlier attempt still waits for its reply. */
  async attach(): Promise<void> {
    const own = ++this.latestRequest;
    this.isAsking = true;
    this.held = [];
    let output: Output;
    try {
      output = await this.ask(this.end);
    } catch (error) {
      if (own === this.latestRequest) {
        this.isAsking = false;
        this.onFailure(error);
      }
      return;
    }
    if (own !== this.latestRequest) return;
    this.isAsking = false;
    const follows = output.offset === this.end;
    if (!follows || output.data.length) {
      this.target.replay(follows || output.offset === 0 ? output.data : fromLine(output.data), !follows);
    }
    this.end = output.offset + output.data.length;
    const held = this.held;
    this.held = [];
    for (const one of held) this.take(one);
  }

  /** Takes live output. */
  take(output: Output): void {
    if (this.isAsking) {
      // It can arrive before the reply to the attach request.
      this.held.push(output);
      if (this.held.length > MAX_HELD) this.held.shift(); // this shows as a gap later
      return;
    }
    if (output.offset > this.end) {
      void this.attach();
      return;
    }
    const fresh = output.data.subarray(this.end - output.offset);
    if (!fresh.length) return;
    this.target.write(fresh);
    this.end += fresh.length;
  }

  /** Attaches again if fewer than `length` bytes have arrived. */
  expect(length: number): void {
    if (!this.isAsking && length > this.end) void this.attach();
  }

  /** Ignores all further output. */
  stop(): void {
    this.latestRequest++;
    this.isAsking = true;
    this.held = [];
  }
}
