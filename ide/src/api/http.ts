/** REST: JSON in and out, and every failure one kind of error that says what to do. */
import type { ErrorCode, Problem } from "./types";
import { t } from "../text";

const PREFIX = "/api/v1";
const MOST_MS = 30_000;

export class ApiError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    /** HTTP status; 0 when nothing answered. */
    readonly status: number,
  ) {
    super(message);
  }
}

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

/** Told when the service says that nobody is signed in. */
let whenSignedOut: () => void = () => {};
export function onSignedOut(listener: () => void): void {
  whenSignedOut = listener;
}

/** Raises ApiError. `undefined` for an answer without a body. */
export async function request<Answer>(method: Method, path: string, body?: unknown): Promise<Answer> {
  const given = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await send(method, path, given);
  return (answer.status === 204 ? undefined : await answer.json()) as Answer;
}

/** Bytes up, JSON back: images. */
export async function upload<Answer>(path: string, bytes: Blob): Promise<Answer> {
  const headers = { "Content-Type": bytes.type || "application/octet-stream" };
  const answer = await send("POST", path, { body: bytes, headers });
  return (await answer.json()) as Answer;
}

/** The text at `path`. */
export async function text(path: string): Promise<string> {
  return (await send("GET", path)).text();
}

export interface Sent {
  body?: BodyInit;
  headers?: Record<string, string>;
  cache?: RequestCache;
  /** Statuses that are answers, and no failures. */
  alsoFine?: number[];
}

/** Raises ApiError, unless the answer is one. */
export async function send(method: Method, path: string, sent: Sent = {}): Promise<globalThis.Response> {
  const { body = null, headers = {}, cache, alsoFine = [] } = sent;
  let answer: globalThis.Response;
  try {
    const signal = AbortSignal.timeout(MOST_MS);
    answer = await fetch(PREFIX + path, { method, headers, body, cache, credentials: "same-origin", signal });
  } catch {
    throw new ApiError("serverUnreachable", t.errors.unreachable, 0);
  }
  if (alsoFine.includes(answer.status)) return answer;
  if (answer.ok) return answer;
  const problem = (await answer.json().catch(() => null)) as Problem | null;
  if (answer.status === 401 && problem?.code === "notAuthenticated") whenSignedOut();
  throw new ApiError(problem?.code ?? "internal", problem?.detail ?? t.errors.status(answer.status), answer.status);
}

/** `?a=1&b=2` of what is there. */
export function query(fields: Record<string, string | number | boolean | null | undefined>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : "";
}

/** What a person is told of whatever was thrown. */
export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
