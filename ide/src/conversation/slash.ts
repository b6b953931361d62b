/** Slash commands: a prompt such as `/new` runs a command of the page. */
import { t } from "../text";

export interface SlashCommand {
  name: string;
  says: string;
  /** The id of the page command. */
  command: string;
}

export const SLASH_COMMANDS: SlashCommand[] = [
  { name: "new", says: t.slash.new, command: "new" },
  { name: "plan", says: t.slash.plan, command: "level-plan" },
  { name: "ask", says: t.slash.ask, command: "level-ask" },
  { name: "auto", says: t.slash.auto, command: "level-autoEdit" },
  { name: "full", says: t.slash.full, command: "level-full" },
  { name: "stop", says: t.slash.stop, command: "stop" },
  { name: "find", says: t.slash.find, command: "find" },
  { name: "review", says: t.slash.review, command: "review" },
  { name: "fork", says: t.slash.fork, command: "fork" },
  { name: "rename", says: t.slash.rename, command: "rename" },
  { name: "export", says: t.slash.export, command: "export" },
  { name: "copy", says: t.slash.copy, command: "copy" },
];

/** Returns the slash commands that begin with `typed`; empty if `typed` is an ordinary prompt. */
export function slashCommands(typed: string): SlashCommand[] {
  const match = /^\/([a-z]*)$/.exec(typed);
  return match === null ? [] : SLASH_COMMANDS.filter((command) => command.name.startsWith(match[1]!));
}
