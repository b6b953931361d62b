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
  const answer = await send(method, path, body === undefined ? undefined : JSON.stringify(body), "application/json");
  return (answer.status === 204 ? undefined : await answer.json()) as Answer;
}

/** Bytes up, JSON back: images. */
export async function upload<Answer>(path: string, bytes: Blob): Promise<Answer> {
  const answer = await send("POST", path, bytes, bytes.type || "application/octet-stream");
  return (await answer.json()) as Answer;
}

/** The text at `path`. */
export async function text(path: string): Promise<string> {
  return (await send("GET", path, undefined, undefined)).text();
}

async function send(method: Method, path: string, body: BodyInit | undefined, type: string | undefined) {
  let answer: globalThis.Response;
  try {
    answer = await fetch(PREFIX + path, {
      method,
      headers: body === undefined || type === undefined ? {} : { "Content-Type": type },
      body: body ?? null,
      credentials: "same-origin",
      signal: AbortSignal.timeout(MOST_MS),
    });
  } catch {
    throw new ApiError("serverUnreachable", t.errors.unreachable, 0);
  }
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
