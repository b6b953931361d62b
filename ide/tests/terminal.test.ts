import { expect, test } from "vitest";

import { ApiError } from "../src/api/http";
import { fromBase64, fromLine, toBase64, utf8 } from "../src/terminal/bytes";
import { type Output, TerminalStream } from "../src/terminal/stream";
import { MAX_BYTES, MAX_WAITING, InputQueue } from "../src/terminal/input-queue";

/** A drone with the output `whole`, stored from `start` on, and a page that shows its terminal. */
class Bench {
  whole = "";
  start = 0;
  screen = "";
  log: string[] = [];
  failures: unknown[] = [];
  private waiting: (() => void)[] = [];
  isSlow = false;
  readonly stream = new TerminalStream(
    async (after) => {
      this.log.push(`ask ${after}`);
      const begin = after >= this.start && after <= this.whole.length ? after : this.start;
      const answer = { offset: begin, data: utf8(this.whole.slice(begin)) };
      if (this.isSlow) await new Promise<void>((done) => this.waiting.push(done));
      return answer;
    },
    {
      write: (data) => (this.screen += new TextDecoder().decode(data)),
      replay: (data, isAnew) => {
        this.log.push(isAnew ? "anew" : "replay");
        this.screen = (isAnew ? "" : this.screen) + new TextDecoder().decode(data);
      },
    },
    (error) => this.failures.push(error),
  );

  say(text: string): Output {
    const output = { offset: this.whole.length, data: utf8(text) };
    this.whole += text;
    return output;
  }

  async answer(): Promise<void> {
    for (const done of this.waiting.splice(0)) done();
    await settled();
  }
}

const settled = () => new Promise((done) => setTimeout(done));

test("stored and live output is shown once", async () => {
  const bench = new Bench();
  bench.say("one ");
  await bench.stream.attach();
  bench.stream.take(bench.say("two "));
  const repeated = bench.say("three ");
  bench.stream.take(repeated);
  bench.stream.take(repeated);
  bench.stream.take({ offset: 4, data: utf8("two three four ") });
  expect(bench.screen).toBe("one two three four ");
});

test("live output before the attach reply waits for it", async () => {
  const bench = new Bench();
  bench.isSlow = true;
  bench.say("kept ");
  const attaching = bench.stream.attach();
  bench.stream.take({ offset: 0, data: utf8("kept ") });
  bench.stream.take(bench.say("live "));
  expect(bench.screen).toBe("");
  await bench.answer();
  await attaching;
  expect(bench.screen).toBe("kept live ");
});

test("after a gap the page attaches from its own offset, and shows nothing twice", async () => {
  const bench = new Bench();
  bench.say("one ");
  await bench.stream.attach();
  bench.say("lost ");
  bench.stream.take(bench.say("three "));
  await settled();
  bench.stream.take(bench.say("four "));
  expect(bench.screen).toBe("one lost three four ");
  expect(bench.log).toEqual(["ask 0", "replay", "ask 4", "replay"]);
});

test("after too large a gap the terminal restarts at the first whole stored line", async () => {
  const bench = new Bench();
  bench.say("one ");
  await bench.stream.attach();
  bench.say("x".repeat(100) + "alf\nwhole line\n");
  bench.start = 104;
  bench.stream.take(bench.say("end"));
  await settled();
  expect(bench.screen).toBe("whole line\nend");
  expect(bench.log).toContain("anew");
});

test("a terminal with less output than was shown is a new one", async () => {
  const bench = new Bench();
  bench.say("a long story");
  await bench.stream.attach();
  bench.whole = "new";
  await bench.stream.attach();
  expect(bench.screen).toBe("new");
});

test("attaching without a gap shows nothing again", async () => {
  const bench = new Bench();
  bench.say("one ");
  await bench.stream.attach();
  await bench.stream.attach();
  expect(bench.screen).toBe("one ");
  expect(bench.log).toEqual(["ask 0", "replay", "ask 4"]);
});

test("the reply of an older attach attempt is ignored", async () => {
  const bench = new Bench();
  bench.isSlow = true;
  bench.say("one ");
  const hung = bench.stream.attach();
  const next = bench.stream.attach();
  bench.say("two ");
  await bench.answer();
  await Promise.all([hung, next]);
  bench.isSlow = false;
  bench.stream.expect(8);
  await settled();
  expect(bench.screen).toBe("one two ");
});

test("the page attaches again only if it has fewer bytes than the drone", async () => {
  const bench = new Bench();
  bench.say("one ");
  await bench.stream.attach();
  bench.stream.expect(4);
  bench.say("two ");
  bench.stream.expect(8);
  await settled();
  expect(bench.log).toEqual(["ask 0", "replay", "ask 4", "replay"]);
  expect(bench.screen).toBe("one two ");
});

test("a stopped stream shows nothing and attaches no more", async () => {
  const bench = new Bench();
  await bench.stream.attach();
  bench.stream.stop();
  bench.stream.take(bench.say("x"));
  bench.stream.expect(100);
  await settled();
  expect(bench.screen).toBe("");
  expect(bench.log).toEqual(["ask 0"]);
});

test("bytes survive the conversion in both directions", () => {
  const every = Uint8Array.from({ length: 20_000 }, (_, n) => n % 256);
  expect(fromBase64(toBase64(every))).toEqual(every);
  expect(fromLine(utf8("no end"))).toEqual(utf8("no end"));
});

const noPause = () => Promise.resolve();

test("input during a send goes into one message", async () => {
  const sent: string[] = [];
  let go = () => {};
  const inputQueue = new InputQueue(
    (data) => {
      sent.push(new TextDecoder().decode(data));
      return new Promise<void>((done) => (go = done));
    },
    () => {},
    noPause,
  );
  for (const key of "abcd") inputQueue.put(utf8(key));
  await settled();
  expect(sent).toEqual(["a"]);
  go();
  await settled();
  expect(sent).toEqual(["a", "bcd"]);
});

test("a paste is sent in pieces, in order, and too large a paste is refused", async () => {
  const sent: Uint8Array[] = [];
  const inputQueue = new InputQueue(async (data) => sent.push(data), () => {}, noPause);
  const paste = Uint8Array.from({ length: MAX_BYTES * 2 + 7 }, (_, n) => n % 251);
  expect(inputQueue.put(paste)).toBe(true);
  expect(inputQueue.put(new Uint8Array(MAX_WAITING))).toBe(false);
  await settled();
  expect(sent.map((data) => data.length)).toEqual([MAX_BYTES, MAX_BYTES, 7]);
  expect(toBase64(sent[0]!).length).toBe(65536);
  expect(toBase64(Uint8Array.from(sent.flatMap((data) => [...data]))) === toBase64(paste)).toBe(true);
});

test("a refused message is sent again, but not for ever", async () => {
  const sent: string[] = [];
  const failures: unknown[] = [];
  let refusals = 3;
  const inputQueue = new InputQueue(
    async (data) => {
      if (refusals-- > 0) throw new ApiError("rateLimited", "It does not read.", 409);
      sent.push(new TextDecoder().decode(data));
    },
    (error) => failures.push(error),
    noPause,
  );
  inputQueue.put(utf8("one"));
  await settled();
  expect([sent, failures]).toEqual([["one"], []]);
  refusals = Infinity;
  inputQueue.put(utf8("two"));
  inputQueue.put(utf8("three"));
  await settled();
  expect(sent).toEqual(["one"]);
  expect(failures.length).toBe(1);
  refusals = 0;
  inputQueue.put(utf8("four"));
  await settled();
  expect(sent).toEqual(["one", "four"]); // not the rest of what was lost
});
