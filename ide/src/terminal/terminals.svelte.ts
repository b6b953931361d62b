/** The terminals of one session. It lists them again whenever a change may have been missed. */
import { ApiError, errorText } from "../api/http";
import type { DroneRegistration, ErrorCode, Terminal } from "../api/types";
import type { Connection } from "../live/connection.svelte";

const AGAIN_MS = 3000;
/** A drone reports that it is online shortly before it accepts requests. */
const SETTLE_MS = 300;
const PASSES: ErrorCode[] = ["droneOffline", "serverUnreachable", "storeUnavailable", "rateLimited", "droneStopping"];

export class Terminals {
  items = $state.raw<Terminal[]>([]);
  /** The id of the shown terminal. */
  current = $state<string | null>(null);
  /** Why terminals are not available, as a text for the user. */
  problem = $state<string | null>(null);
  /** Counts the listings: after each, the shown terminals attach again. */
  listed = $state(0);
  droneId = $state<string | null>(null);
  private stops: (() => void)[] = [];
  private again: ReturnType<typeof setTimeout> | undefined;
  private latestRequest = 0;

  constructor(
    private readonly connection: Connection,
    private readonly session: string,
    private readonly drones: () => DroneRegistration[],
  ) {}

  get drone(): DroneRegistration | undefined {
    return this.drones().find((drone) => drone._id === this.droneId);
  }

  /** Whether input reaches the terminal. */
  get isReached(): boolean {
    return this.connection.state === "online" && this.problem === null && this.drone?.status !== "offline";
  }

  open(): void {
    this.stops = [
      this.connection.onOnline(() => void this.list()),
      this.connection.on("terminalChanged", ({ terminal }) => {
        if (terminal.session === this.session) this.put(terminal);
      }),
      this.connection.on("terminalClosed", ({ terminalId }) => this.remove(terminalId)),
      this.connection.on("droneStatus", ({ drone }) => {
        const isOurs = this.droneId === null || this.droneId === drone._id;
        if (isOurs && drone.status !== "offline" && (this.problem !== null || drone.status === "starting")) {
          this.listIn(SETTLE_MS);
        }
      }),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
    clearTimeout(this.again);
    this.latestRequest++;
  }

  /** Opens a terminal. Throws ApiError. */
  async start(columns: number, rows: number): Promise<void> {
    const { terminal } = await this.connection.call("openTerminal", { chatSessionId: this.session, columns, rows });
    this.put(terminal);
    this.current = terminal._id;
  }

  /** Closes a terminal; does nothing if it is closed already. Throws ApiError. */
  async end(terminal: string): Promise<void> {
    try {
      await this.connection.call("closeTerminal", { chatSessionId: this.session, terminalId: terminal });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === "notFound")) throw error;
    }
    this.remove(terminal);
  }

  private listIn(ms: number): void {
    clearTimeout(this.again);
    this.again = setTimeout(() => void this.list(), ms);
  }

  private async list(): Promise<void> {
    const own = ++this.latestRequest;
    clearTimeout(this.again);
    try {
      const answer = await this.connection.call("listTerminals", { chatSessionId: this.session });
      if (own !== this.latestRequest) return;
      this.droneId = answer.droneId;
      this.items = answer.terminals;
      this.problem = null;
      if (!this.items.some((one) => one._id === this.current)) this.current = this.items[0]?._id ?? null;
      this.listed++;
    } catch (error) {
      if (own !== this.latestRequest) return;
      this.problem = errorText(error);
      if (error instanceof ApiError && PASSES.includes(error.code)) this.listIn(AGAIN_MS);
    }
  }

  private put(terminal: Terminal): void {
    const isHere = this.items.some((one) => one._id === terminal._id);
    this.items = isHere
      ? this.items.map((one) => (one._id === terminal._id ? terminal : one))
      : [...this.items, terminal];
    this.current ??= terminal._id;
  }

  private remove(terminal: string): void {
    const at = this.items.findIndex((one) => one._id === terminal);
    if (at < 0) return;
    this.items = this.items.filter((one) => one._id !== terminal);
    if (this.current === terminal) this.current = (this.items[at] ?? this.items.at(-1))?._id ?? null;
  }
}
