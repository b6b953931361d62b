/** A conversation as Markdown: to copy, or as a file. */
import * as api from "../api/resources";
import type { ChatSession, ChatTurn, TurnEvent } from "../api/types";
import { moment } from "../format";
import { targetOf } from "./tools";

export async function sessionMarkdown(session: ChatSession): Promise<string> {
  const turns: ChatTurn[] = [];
  let cursor: string | null = null;
  do {
    const page: api.Page<ChatTurn> = await api.turns(session._id, 200, cursor);
    turns.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor !== null);
  const parts = [`# ${session.name}`];
  for (const turn of turns.reverse()) parts.push(turnMarkdown(turn, await api.steps(turn._id)));
  return `${parts.join("\n\n")}\n`;
}

export function turnMarkdown(turn: ChatTurn, events: TurnEvent[]): string {
  const parts = [`## ${moment(turn.createdAt)}`, quoted(turn.prompts.user)];
  for (const event of events) {
    if (event.type === "step" && event.message.content !== "") parts.push(event.message.content.trim());
    if (event.type === "toolCall") {
      const outcome = event.denied ? "denied" : event.isError ? "failed" : "done";
      parts.push(`- \`${event.name}\` ${targetOf(event.params)} (${outcome})`.replaceAll("\n", " "));
    }
    if (event.type === "steered" && event.origin === "user") parts.push(quoted(event.content));
  }
  return parts.join("\n\n");
}

export async function exportMarkdown(session: ChatSession): Promise<void> {
  const file = new Blob([await sessionMarkdown(session)], { type: "text/markdown" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = `${session.name.replace(/[^\p{L}\p{N} ._-]+/gu, " ").trim().slice(0, 80) || "session"}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function quoted(text: string): string {
  return text.split("\n").map((line) => `> ${line}`).join("\n");
}
