/** Sends terminal input in order, one message at a time. Input during a send goes into the next message. */
import { ApiError } from "../api/http";

/** 48 KiB are 64 Ki characters of base64, the limit of one message. */
export const MAX_BYTES = 48 * 1024;
/** 40 messages a second; the service accepts 50. */
const PAUSE_MS = 25;
/** While the program does not read, a message is retried every `AGAIN_MS`, for `PATIENCE_MS`. */
const AGAIN_MS = 250;
const PATIENCE_MS = 10_000;
/** A larger paste is refused. */
export const MAX_WAITING = 8 * 1024 * 1024;

export class InputQueue {
  private waiting: Uint8Array[] = [];
  private size = 0;
  private isSending = false;

  /** `send` throws the error of the service. It drops the unsent input, and `onFailure` gets the error. */
  constructor(
    private readonly send: (data: Uint8Array) => Promise<unknown>,
    private readonly onFailure: (error: unknown) => void,
    private readonly pause: (ms: number) => Promise<void> = (ms) => new Promise((done) => setTimeout(done, ms)),
  ) {}

  /** Queues input. Returns false if it is too much. */
  put(data: Uint8Array): boolean {
    if (this.size + data.length > MAX_WAITING) return false;
    this.waiting.push(data);
    this.size += data.length;
    if (!this.isSending) void this.run();
    return true;
  }

  /** Drops the unsent input. */
  drop(): void {
    this.waiting = [];
    this.size = 0;
  }

  private async run(): Promise<void> {
    this.isSending = true;
    try {
      while (this.size) {
        await this.sendOne(this.next());
        await this.pause(PAUSE_MS);
      }
    } catch (error) {
      this.drop(); // the rest without its beginning would be another command
      this.onFailure(error);
    } finally {
      this.isSending = false;
    }
  }

  private async sendOne(data: Uint8Array): Promise<void> {
    for (let waited = 0; ; waited += AGAIN_MS) {
      try {
        await this.send(data);
        return;
      } catch (error) {
        // With these errors, the service has taken nothing of the message.
        const isFull = error instanceof ApiError && error.code === "rateLimited";
        if (!isFull || waited >= PATIENCE_MS) throw error;
      }
      await this.pause(AGAIN_MS);
    }
  }

  /** Takes as much input as fits into one message. */
  private next(): Uint8Array {
    const whole = new Uint8Array(Math.min(this.size, MAX_BYTES));
    let at = 0;
    while (at < whole.length) {
      const first = this.waiting[0]!;
      const part = first.subarray(0, whole.length - at);
      whole.set(part, at);
      at += part.length;
      if (part.length === first.length) this.waiting.shift();
      else this.waiting[0] = first.subarray(part.length);
    }
    this.size -= whole.length;
    return whole;
  }
}
