/** The socket of this page: its state, its events, and requests that always end. */
import { io, type Socket } from "socket.io-client";

import { ApiError } from "../api/http";
import { pageKey } from "../api/page-key";
import type { ErrorCode, ErrorInfo, ProtocolVersion, Pushes, Requests } from "../api/types";
import { t } from "../text";

const PROTOCOL_VERSION: ProtocolVersion = 1; // svelte-check fails when gadget_api has another
const CALL_MS = 15_000;

export type ConnectionState = "connecting" | "online" | "lost" | "refused" | "closed";

type Listener<Name extends keyof Pushes> = (payload: Pushes[Name]) => void;

export class Connection {
  state = $state<ConnectionState>("closed");
  /** When the connection was lost, in ms since 1970; null while connected. */
  lostAt = $state<number | null>(null);
  /** Why the service refuses the connection, as a text for the user. */
  refusal = $state<string | null>(null);

  private readonly socket: Socket;
  private whenSignedOut: () => void = () => {};

  constructor() {
    this.socket = io({
      autoConnect: false,
      transports: ["websocket"],
      // The browser sends the cookie. The service needs both the cookie and the page key.
      auth: (give) => give({ protocolVersion: PROTOCOL_VERSION, page: pageKey() }),
      reconnectionDelay: 250,
      reconnectionDelayMax: 5000,
      timeout: 10_000,
    });
    this.socket.on("connect", () => {
      this.state = "online";
      this.lostAt = null;
      this.refusal = null;
    });
    this.socket.on("disconnect", (reason) => {
      if (this.state === "closed") return;
      this.lost();
      // socket.io does not reconnect after the server closed the connection.
      if (reason === "io server disconnect") setTimeout(() => this.socket.connect(), 500);
    });
    this.socket.on("connect_error", (error: Error & { data?: ErrorInfo }) => {
      const code = error.data?.code;
      if (code === "notAuthenticated") {
        this.close();
        this.whenSignedOut();
      } else if (error.data !== undefined) {
        this.state = "refused";
        this.refusal = error.data.message;
        if (error.data.retryable) setTimeout(() => this.socket.connect(), 2000);
      } else {
        this.lost();
      }
    });
  }

  open(whenSignedOut: () => void): void {
    this.whenSignedOut = whenSignedOut;
    this.state = "connecting";
    this.socket.connect();
  }

  close(): void {
    this.state = "closed";
    this.socket.disconnect();
  }

  /** Reconnects now, without waiting for the next attempt. */
  retry(): void {
    if (!this.socket.connected) this.socket.disconnect().connect();
  }

  /** Calls `listener` after each connect, and at once if connected. Returns a function that removes the listener. */
  onOnline(listener: () => void): () => void {
    this.socket.on("connect", listener);
    if (this.socket.connected) listener();
    return () => this.socket.off("connect", listener);
  }

  on<Name extends keyof Pushes>(name: Name, listener: Listener<Name>): () => void {
    this.socket.on(name as string, listener as (payload: unknown) => void);
    return () => this.socket.off(name as string, listener as (payload: unknown) => void);
  }

  /** Listens to everything that the service sends, also to names that this page does not know. */
  onAny(listener: (name: string, payload: unknown) => void): () => void {
    this.socket.onAny(listener);
    return () => this.socket.offAny(listener);
  }

  /** Sends a request and returns its reply. Throws ApiError if it fails, times out or the page is offline. */
  async call<Name extends keyof Requests>(
    name: Name,
    payload: Requests[Name]["payload"],
  ): Promise<Requests[Name]["reply"]> {
    if (!this.socket.connected) throw new ApiError("serverUnreachable", t.errors.offline, 0);
    type Reply = { ok: true } | { ok: false; error: { code: ErrorCode; message: string } };
    let reply: Reply;
    try {
      reply = (await this.socket.timeout(CALL_MS).emitWithAck(name as string, payload)) as Reply;
    } catch {
      throw new ApiError("serverUnreachable", t.errors.noAnswer, 0);
    }
    if (!reply.ok) throw new ApiError(reply.error.code, reply.error.message, 409);
    return reply as unknown as Requests[Name]["reply"];
  }

  private lost(): void {
    this.state = "lost";
    this.lostAt ??= Date.now();
  }
}
