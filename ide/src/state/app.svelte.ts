/** The state of the whole page, in one object that main.ts creates. */
import { createContext } from "svelte";

import { ApiError, errorText, onSignedOut } from "../api/http";
import { followOtherTabs } from "../api/page-key";
import * as api from "../api/resources";
import type { ChatTurn, Inquiry, User, UserChanges } from "../api/types";
import { Connection } from "../live/connection.svelte";
import { Router } from "../router.svelte";
import { t } from "../text";
import { SerialQueue } from "./serial-queue";
import { Fleet } from "./fleet.svelte";
import { Notifier } from "./notifier";
import { Preferences } from "./preferences.svelte";
import { SessionList } from "./sessions.svelte";

export interface Toast {
  id: number;
  level: "info" | "error";
  text: string;
}

const TOAST_MS = 6000;

export class App {
  /** Undefined until it is loaded; null if nobody is signed in. */
  user = $state.raw<User | null | undefined>(undefined);
  toasts = $state.raw<Toast[]>([]);
  readonly router = new Router();
  readonly connection = new Connection();
  readonly fleet = new Fleet(this.connection);
  readonly sessions = new SessionList(this.connection);
  readonly preferences = new Preferences();
  private readonly notifier = new Notifier(this.preferences);
  private readonly changes = new SerialQueue();
  private nextToast = 0;

  async start(): Promise<void> {
    this.router.start();
    this.preferences.apply();
    onSignedOut(() => this.forget());
    followOtherTabs();
    addEventListener("hashchange", () => {
      // The user opened a sign-in link in a tab that already shows this page.
      if (location.hash.startsWith("#sign-in=")) location.reload();
    });
    const link = new URLSearchParams(location.hash.slice(1)).get("sign-in");
    if (link !== null) {
      history.replaceState(null, "", location.pathname); // the link works once, and must not be copied
      try {
        this.enter(await api.signInByLink(link));
        return;
      } catch (error) {
        // A user who is signed in needs no link.
        if (await this.isSignedIn()) return;
        this.user = null;
        this.fail(error);
        return;
      }
    }
    await this.isSignedIn();
  }

  enter(user: User): void {
    this.user = user;
    this.fleet.open();
    this.sessions.open(
      (turn) => this.notifyTurn(turn),
      (inquiry) => this.notifyInquiry(inquiry),
    );
    this.connection.open(() => this.forget());
  }

  async leave(): Promise<void> {
    await api.signOut();
    location.assign("/"); // the reload removes the user's data from memory
  }

  /** Changes the account of the signed-in user. Throws ApiError. */
  async changeMe(changes: (user: User) => UserChanges): Promise<void> {
    await this.changes.run(async () => (this.user = await api.changeMe(changes(this.user!))));
  }

  say(text: string, level: Toast["level"] = "info"): void {
    const toast = { id: this.nextToast++, level, text };
    this.toasts = [...this.toasts.slice(-3), toast];
    setTimeout(() => this.dismiss(toast), level === "error" ? TOAST_MS * 2 : TOAST_MS);
  }

  dismiss(toast: Toast): void {
    this.toasts = this.toasts.filter((other) => other !== toast);
  }

  fail(error: unknown): void {
    this.say(errorText(error), "error");
  }

  /** Runs an action and shows its error, if any. Returns whether it succeeded. */
  async attempt(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  private async isSignedIn(): Promise<boolean> {
    try {
      this.enter(await api.me());
      return true;
    } catch (error) {
      this.user = null;
      if (!(error instanceof ApiError && error.status === 401)) this.fail(error);
      return false;
    }
  }

  /** Shows the sign-in page: nobody is signed in. */
  private forget(): void {
    if (this.user) location.reload();
    else this.user = null;
  }

  private notifyTurn(turn: ChatTurn): void {
    const name = this.sessions.get(turn.session)?.name ?? t.product;
    const says = turn.unusualAt ? t.sessions.unusual : t.statuses[turn.status];
    this.notifier.tell(name, says, () => this.router.go({ page: "session", id: turn.session }));
  }

  private notifyInquiry(inquiry: Inquiry): void {
    const name = this.sessions.get(inquiry.session)?.name ?? t.product;
    this.notifier.tell(name, inquiry.title, () => this.router.go({ page: "session", id: inquiry.session }));
  }
}

export const [useApp, provideApp] = createContext<App>();
