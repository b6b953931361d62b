/** The files of a session's project: listed, found, read and changed on the drone that holds the workspace. */
import type { DeletedFiles, FileList, FoundFiles, RenameFile, SavedFile } from "./types";
import { t } from "../text";
import { ApiError, download, query, request, send } from "./http";

/** As in gadget_api/files.py: the largest file that may be saved, and so edited. */
export const MAX_WRITTEN_BYTES = 2 * 1024 * 1024;
/** The largest text that is shown, to be read only. */
export const MAX_SHOWN_BYTES = 8 * 1024 * 1024;
const MOST_FOUND = 50;

/** What is on disk. `bytes` is null where there are more than a page shows. */
export interface ReadFile {
  version: string;
  mediaType: string;
  sizeBytes: number | null;
  bytes: Uint8Array<ArrayBuffer> | null;
}

/** What the editor needs of the files of one session; the tests' own is in memory. */
export interface FilesApi {
  list(path: string): Promise<FileList>;
  find(q: string): Promise<FoundFiles>;
  /** Null: it is still of the version `known`. */
  read(path: string, known?: string): Promise<ReadFile | null>;
  /** `version` is what it takes the place of; null makes a new file. Raises ApiError `fileChanged`, `alreadyExists`. */
  save(path: string, bytes: Uint8Array<ArrayBuffer>, version: string | null): Promise<SavedFile>;
  rename(path: string, to: string): Promise<void>;
  remove(path: string, what: { version?: string; recursive?: boolean }): Promise<DeletedFiles>;
}

export function filesOf(session: string): FilesApi {
  const at = `/sessions/${session}/files`;
  return {
    list: (path) => request<FileList>("GET", at + query({ path })),
    find: (q) => request<FoundFiles>("GET", `${at}/find` + query({ q, limit: MOST_FOUND })),
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

/** Where the bytes of a file are. */
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
