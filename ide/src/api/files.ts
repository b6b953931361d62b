/** Lists, finds, reads and changes the files of a session's project, on the drone that holds the workspace. */
import type { DeletedFiles, FileList, FoundFiles, RenameFile, SavedFile } from "./types";
import { t } from "../text";
import { ApiError, download, query, request, send } from "./http";

/** The largest file that can be saved, and so edited. The same as in gadget_api/files.py. */
export const MAX_WRITTEN_BYTES = 2 * 1024 * 1024;
/** The largest text that is shown, read-only. */
export const MAX_SHOWN_BYTES = 8 * 1024 * 1024;
const MAX_MATCHES = 50;

/** A file on disk. `bytes` is null if the file is too large to show. */
export interface ReadFile {
  version: string;
  mediaType: string;
  sizeBytes: number | null;
  bytes: Uint8Array<ArrayBuffer> | null;
}

/** The file operations that the editor needs. The tests have an implementation in memory. */
export interface FilesApi {
  list(path: string): Promise<FileList>;
  find(q: string): Promise<FoundFiles>;
  /** Returns null if the file still has the version `known`. */
  read(path: string, known?: string): Promise<ReadFile | null>;
  /** `version` is the version that is replaced; null creates a file. Throws ApiError `fileChanged` or `alreadyExists`. */
  save(path: string, bytes: Uint8Array<ArrayBuffer>, version: string | null): Promise<SavedFile>;
  rename(path: string, to: string): Promise<void>;
  remove(path: string, what: { version?: string; recursive?: boolean }): Promise<DeletedFiles>;
}

export function filesOf(session: string): FilesApi {
  const at = `/sessions/${session}/files`;
  return {
    list: (path) => request<FileList>("GET", at + query({ path })),
    find: (q) => request<FoundFiles>("GET", `${at}/find` + query({ q, limit: MAX_MATCHES })),
    read: (path, known) => read(`${at}/content` + query({ path }), known),
    save: async (path, bytes, version) => {
      const condition: Record<string, string> = version === null ? { "If-None-Match": "*" } : { "If-Match": `"${version}"` };
      const headers = { ...condition, "Content-Type": "application/octet-stream" };
      const answer = await send("PUT", `${at}/content` + query({ path }), { body: bytes, headers });
      return (await answer.json()) as SavedFile;
    },
    rename: (path, to) => request<void>("POST", `${at}/rename`, { path, to } satisfies RenameFile),
    remove: (path, { version, recursive }) => request<DeletedFiles>("DELETE", at + query({ path, version, recursive })),
  };
}

/** Returns the path of a file's bytes in the API. */
export function contentPath(session: string, path: string, download?: true): string {
  return `/sessions/${session}/files/content` + query({ path, download });
}

export function downloadFile(session: string, path: string): Promise<void> {
  return download(contentPath(session, path, true));
}

async function read(path: string, known: string | undefined): Promise<ReadFile | null> {
  const headers: Record<string, string> = known === undefined ? {} : { "If-None-Match": `"${known}"` };
  const answer = await send("GET", path, { headers, cache: "no-store", alsoFine: [304] });
  if (answer.status === 304) return null;
  const length = answer.headers.get("Content-Length");
  const version = (answer.headers.get("ETag") ?? "").replace(/^W\//, "").replaceAll('"', "");
  const mediaType = (answer.headers.get("Content-Type") ?? "").split(";")[0]!.trim();
  const announced = length === null ? null : Number(length);
  const isShown = mediaType.startsWith("image/") || (mediaType === "text/plain" && (announced ?? 0) <= MAX_SHOWN_BYTES);
  if (!isShown) {
    await answer.body?.cancel();
    return { version, mediaType, sizeBytes: announced, bytes: null };
  }
  try {
    const bytes = new Uint8Array(await answer.arrayBuffer());
    return { version, mediaType, sizeBytes: bytes.length, bytes };
  } catch {
    throw new ApiError("serverUnreachable", t.errors.unreachable, 0);
  }
}
