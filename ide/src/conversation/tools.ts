/** Describes tool calls by their parameters, because parameters are more uniform than tool names. */
import { type DiffLine, diffOf, parsePatch } from "../diff/lines";

export type Params = Record<string, unknown>;
export type ToolKind = "shell" | "edit" | "read" | "search" | "list" | "web" | "todo" | "ask" | "agent" | "other";

export interface FileEdit {
  path: string;
  lines: DiffLine[];
}

export interface TodoEntry {
  text: string;
  state: "open" | "active" | "done" | "dropped";
}

const KINDS: Record<string, ToolKind> = {
  shell: "shell",
  bash: "shell",
  read: "read",
  list: "list",
  search: "search",
  grep: "search",
  glob: "search",
  edit: "edit",
  multi_edit: "edit",
  apply_patch: "edit",
  write: "edit",
  todo: "todo",
  ask: "ask",
  ask_user: "ask",
  task: "agent",
};

export function kindOf(name: string, params: Params): ToolKind {
  const known = KINDS[name];
  if (known !== undefined) return known;
  if (typeof params.command === "string") return "shell";
  if (name.includes("todo")) return "todo";
  if (typeof params.url === "string") return "web";
  return "other";
}

const TARGETS = ["command", "pattern", "query", "url", "question", "path", "name", "description", "prompt"];

/** Returns a summary of the call in one line. */
export function targetOf(params: Params): string {
  const own = firstText(params, TARGETS);
  if (own === null) {
    const patch = firstText(params, ["patch", "diff"]);
    return patch === null ? "" : parsePatch(patch).map((file) => file.path).join(", ");
  }
  const line = own.split("\n").find((part) => part.trim() !== "") ?? "";
  const within = own !== params.path && typeof params.path === "string" && params.path !== "." ? ` in ${params.path}` : "";
  return line + within;
}

/** Returns the file, and the place in it, that a call concerns; null if it concerns none or several. */
export function placeOf(name: string, params: Params): { path: string; line: number | null; text: string | null } | null {
  const kind = kindOf(name, params);
  if ((kind !== "read" && kind !== "edit") || typeof params.path !== "string" || params.path === "") return null;
  const first = Array.isArray(params.edits) && isParams(params.edits[0]) ? params.edits[0] : params;
  const text = first.new_text ?? first.new_string;
  const line = params.start_line ?? params.line;
  return { path: params.path, line: typeof line === "number" ? line : null, text: typeof text === "string" && text !== "" ? text : null };
}

function firstText(params: Params, keys: string[]): string | null {
  for (const key of keys) {
    const value = params[key];
    if (typeof value === "string" && value !== "") return value;
  }
  return null;
}

/** Returns the file changes in the parameters of a call. */
export function editsOf(name: string, params: Params): FileEdit[] {
  const path = typeof params.path === "string" ? params.path : "";
  const patch = firstText(params, ["patch", "diff"]);
  if (patch !== null) return parsePatch(patch);
  if (name === "write" && typeof params.content === "string") {
    return [{ path, lines: diffOf("", params.content) }];
  }
  const single = replacement(params, path);
  if (single !== null) return [single];
  const several = Array.isArray(params.edits) ? params.edits : [];
  return several
    .map((edit) => (isParams(edit) ? replacement(edit, typeof edit.path === "string" ? edit.path : path) : null))
    .filter((edit) => edit !== null);
}

function replacement(params: Params, path: string): FileEdit | null {
  const before = params.old_text ?? params.old_string;
  const after = params.new_text ?? params.new_string;
  return typeof before === "string" && typeof after === "string" ? { path, lines: diffOf(before, after) } : null;
}

const STATES: Record<string, TodoEntry["state"]> = {
  completed: "done",
  done: "done",
  in_progress: "active",
  inProgress: "active",
  active: "active",
  doing: "active",
  cancelled: "dropped",
  dropped: "dropped",
};

/** Returns the list that a call of the todo tool writes; null for other calls. */
export function todoOf(name: string, params: Params): TodoEntry[] | null {
  if (kindOf(name, params) !== "todo") return null;
  const list = [params.items, params.todos, params.entries].find(Array.isArray);
  if (list === undefined) return null;
  return (list as unknown[]).filter(isParams).map((entry) => ({
    text: firstText(entry, ["text", "content", "title", "task", "description"]) ?? "",
    state: entry.done === true ? "done" : (STATES[String(entry.status ?? entry.state)] ?? "open"),
  }));
}

export function isParams(value: unknown): value is Params {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
