import type { ChatTurn } from "./types";

/** Whether a turn has ended. */
export function isOver({ status }: Pick<ChatTurn, "status">): boolean {
  return status === "finished" || status === "error" || status === "cancelled";
}
