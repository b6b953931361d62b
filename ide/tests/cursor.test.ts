import { expect, test } from "vitest";

import { StreamCursor } from "../src/live/cursor";

const event = (seq: number, turnId = "t1", epoch = 1) => ({ turnId, seq, epoch });

test("consecutive events count once each", () => {
  const cursor = new StreamCursor();
  expect([1, 2, 2, 1, 3].map((seq) => cursor.take(event(seq)))).toEqual(["next", "next", "repeat", "repeat", "next"]);
  expect(cursor.last).toEqual(event(3));
});

test("the first event of a later turn counts, an event of an earlier turn does not", () => {
  const cursor = new StreamCursor();
  cursor.take(event(7, "t2"));
  expect(cursor.take(event(1, "t3"))).toBe("next");
  expect(cursor.take(event(8, "t2"))).toBe("repeat");
});

test("a gap requests the stream again, and a second time it is skipped", () => {
  const cursor = new StreamCursor();
  cursor.take(event(1));
  expect(cursor.take(event(5))).toBe("gap");
  expect(cursor.last).toEqual(event(1));
  expect(cursor.take(event(5))).toBe("next");
  expect(cursor.take(event(6))).toBe("next");
});

test("after a filled gap the stream continues", () => {
  const cursor = new StreamCursor();
  cursor.take(event(1));
  expect(cursor.take(event(3))).toBe("gap");
  expect(cursor.take(event(2))).toBe("next");
  expect(cursor.take(event(3))).toBe("next");
});

test("a later epoch replaces events, an older epoch is dropped", () => {
  const cursor = new StreamCursor();
  for (const seq of [1, 2, 3, 4]) cursor.take(event(seq));
  expect(cursor.take(event(3, "t1", 2))).toBe("replaces");
  expect(cursor.last).toEqual(event(3, "t1", 2));
  expect(cursor.take(event(4, "t1", 1))).toBe("repeat");
  expect(cursor.take(event(4, "t1", 2))).toBe("next");
});
