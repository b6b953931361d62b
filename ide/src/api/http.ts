/** REST requests in JSON. Every failure is an ApiError, whose message says what to do. */
import type { ErrorCode, Problem } from "./types";
import { marked } from "../disguise";
import { t } from "../text";
import { PAGE_HEADER, pageKey } from "./page-key";

const PREFIX = "/api/v1";
const TIMEOUT_MS = 30_000;
const FILE_TIMEOUT_MS = 600_000;
const KEPT_MS = 60_000; // how long the browser has to save a download

export class ApiError extends Error {
  constructor(
    readonly code: ErrorCode,
    message: string,
    /** The HTTP status; 0 without a response. */
    readonly status: number,
  ) {
    super(message);
  }
}

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";

/** Called when the service answers that nobody is signed in. */
let whenSignedOut: () => void = () => {};
export function onSignedOut(listener: () => void): void {
  whenSignedOut = listener;
}

/** Sends a request and returns its JSON; `undefined` for a response without a body. Throws ApiError. */
export async function request<Answer>(method: Method, path: string, body?: unknown): Promise<Answer> {
  const given = body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await send(method, path, given);
  return (answer.status === 204 ? undefined : await answer.json()) as Answer;
}

/** Uploads bytes, such as an image, and returns the JSON of the response. */
export async function upload<Answer>(path: string, bytes: Blob): Promise<Answer> {
  const headers = { "Content-Type": bytes.type || "application/octet-stream" };
  const answer = await send("POST", path, { body: bytes, headers });
  return (await answer.json()) as Answer;
}

/** Returns the text at `path`. */
export async function text(path: string): Promise<string> {
  return (await send("GET", path)).text();
}

/** Returns the bytes at `path`. */
export async function blob(path: string): Promise<Blob> {
  return (await send("GET", path, { timeoutMs: FILE_TIMEOUT_MS })).blob();
}

/** Downloads `path` to a file. The service names it. */
export async function download(path: string): Promise<void> {
  const answer = await send("GET", path, { timeoutMs: FILE_TIMEOUT_MS });
  const named = answer.headers.get("Content-Disposition") ?? "";
  const link = document.createElement("a");
  const encoded = /filename\*=UTF-8''([^;]+)/.exec(named)?.[1];
  link.download = encoded !== undefined ? decodeURIComponent(encoded) : (/filename="([^"]+)"/.exec(named)?.[1] ?? "download");
  link.href = URL.createObjectURL(await answer.blob());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

export interface Sent {
  body?: BodyInit;
  headers?: Record<string, string>;
  cache?: RequestCache;
  timeoutMs?: number;
  /** Error statuses that the caller handles: they do not throw. */
  alsoFine?: number[];
}

/** Sends a request. Throws ApiError for an error status and without a response. */
export async function send(method: Method, path: string, sent: Sent = {}): Promise<globalThis.Response> {
  const { body = null, cache, timeoutMs = TIMEOUT_MS, alsoFine = [] } = sent;
  const key = pageKey();
  const headers = { ...sent.headers, ...(key === null ? {} : { [PAGE_HEADER]: key }) };
  let answer: globalThis.Response;
  try {
    const signal = AbortSignal.timeout(timeoutMs);
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

/** Returns `?a=1&b=2` for the fields that have a value. */
export function query(fields: Record<string, string | number | boolean | null | undefined>): string {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : "";
}

/** Returns the text that the user sees for an exception. */
export function errorText(error: unknown): string {
  return marked(error instanceof Error ? error.message : String(error));
}
