/** Undoes changes on disk: reads a file, applies `undo.ts`, and saves it if it has not changed in between. */
import type { FilesApi } from "../api/files";
import { ApiError } from "../api/http";
import type { FileDiff } from "../api/types";
import { type Change, type Patch, type Side } from "../diff/hunks";
import { t } from "../text";
import { replaceSide, planOf, type Refusal, standing } from "./undo";

/** An undo that is not possible. The message is for the user. */
export class Refused extends Error {}

/** Reverses an undo. Throws ApiError `fileChanged` if the file has changed since. */
export type Back = () => Promise<unknown>;

export interface DiskFile {
  version: string;
  /** Null if the file is not text, or too large to show. */
  text: string | null;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }); // a byte order mark is part of the text

/** Reads a file; null if it does not exist. Throws ApiError. */
export async function readDisk(files: FilesApi, path: string): Promise<DiskFile | null> {
  try {
    const found = await files.read(path);
    const isText = found !== null && found.bytes !== null && found.mediaType === "text/plain";
    return { version: found?.version ?? "", text: isText ? decoder.decode(found.bytes!) : null };
  } catch (error) {
    if (error instanceof ApiError && error.code === "notFound") return null;
    throw error;
  }
}

/** Undoes one change of a file, or applies it again if `from` is "old". Throws Refused or ApiError. */
export async function exchange(files: FilesApi, path: string, change: Change, from: Side): Promise<Back> {
  const disk = await textOf(files, path);
  const result = replaceSide(disk.text, change, from);
  if (result.refusal !== undefined) {
    const isDone = from === "new" && result.refusal === "changed" && standing(disk.text, change) === "undone";
    throw isDone ? new Refused(t.review.already(path)) : refused(result.refusal, path);
  }
  return save(files, path, disk, result.text);
}

/** Undoes all changes of a file; returns null if they are undone already. Throws Refused or ApiError. */
export async function undoFile(files: FilesApi, file: FileDiff, patch: Patch): Promise<Back | null> {
  const { path } = file;
  const disk = await readDisk(files, path);
  if (disk !== null && disk.text === null) throw refused("notText", path);
  const plan = planOf(file, patch, disk === null ? null : disk.text);
  switch (plan.act) {
    case "nothing":
      return null;
    case "refuse":
      throw refused(plan.refusal, path);
    case "delete":
      await files.remove(path, { version: disk!.version });
      return () => files.save(path, encoder.encode(disk!.text!), null);
    case "create": {
      const saved = await files.save(path, encoder.encode(plan.text), null);
      return () => files.remove(path, { version: saved.version });
    }
    case "save":
      return save(files, path, { version: disk!.version, text: disk!.text! }, plan.text);
    case "rename": {
      await files.rename(path, plan.to);
      const same = plan.text === disk!.text;
      const back = same ? null : await save(files, plan.to, { version: disk!.version, text: disk!.text! }, plan.text);
      return async () => {
        await back?.();
        await files.rename(plan.to, path);
      };
    }
  }
}

async function textOf(files: FilesApi, path: string): Promise<{ version: string; text: string }> {
  const disk = await readDisk(files, path);
  if (disk === null) throw refused("gone", path);
  if (disk.text === null) throw refused("notText", path);
  return { version: disk.version, text: disk.text };
}

async function save(files: FilesApi, path: string, disk: { version: string; text: string }, text: string): Promise<Back> {
  const saved = await files.save(path, encoder.encode(text), disk.version);
  return () => files.save(path, encoder.encode(disk.text), saved.version);
}

function refused(refusal: Refusal, path: string): Refused {
  return new Refused(t.review.refusals[refusal](path));
}
