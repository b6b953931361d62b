/** The REST requests, by name. */
import { query, request, upload } from "./http";
import { dropPageKey, keepPageKey } from "./page-key";
import type {
  AccountChanges,
  ChatSession,
  ChatTurn,
  Diff,
  DroneChanges,
  DroneRegistration,
  ImageRef,
  Inquiry,
  ListedModels,
  ListedSession,
  MadeUser,
  NewDroneToken,
  NewFork,
  NewProject,
  NewProvider,
  NewRevert,
  NewSession,
  NewUser,
  Project,
  ProjectChanges,
  Provider,
  ProviderChanges,
  Queue,
  Reverted,
  SearchHit,
  ServiceVersion,
  SessionChanges,
  SignedIn,
  SignInLink,
  TokenChanges,
  TokenInfo,
  TokenList,
  TurnEvent,
  UsageBy,
  StorageUsage,
  UsageReport,
  User,
  UserChanges,
} from "./types";

export interface Page<Item> {
  items: Item[];
  nextCursor: string | null;
}

const PAGE_SIZE = 200; // items of a page
const MAX_PAGES = 20;

async function all<Item>(path: string, fields: Record<string, string> = {}): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | null = null;
  for (let n = 0; n < MAX_PAGES; n++) {
    const page: Page<Item> = await request("GET", path + query({ ...fields, limit: PAGE_SIZE, cursor }));
    items.push(...page.items);
    cursor = page.nextCursor;
    if (cursor === null) break;
  }
  return items;
}

export const me = () => request<User>("GET", "/users/me");
export const users = () => all<User>("/users");
export const newUser = (user: NewUser) => request<MadeUser>("POST", "/users", user);
export const changeUser = (id: string, changes: AccountChanges) => request<User>("PATCH", `/users/${id}`, changes);
export const removeUser = (id: string) => request<void>("DELETE", `/users/${id}`);
export const newSignInLink = (id: string) => request<SignInLink>("POST", `/users/${id}/sign-in-link`);
export const changeMe = (changes: UserChanges) => request<User>("PATCH", "/users/me", changes);
export const signIn = (email: string, password: string) => finishSignIn(request<SignedIn>("POST", "/auth/login", { email, password }));
export const signInByLink = (token: string) => finishSignIn(request<SignedIn>("POST", "/auth/link", { token }));
export async function signOut(): Promise<void> {
  await request<void>("POST", "/auth/logout");
  dropPageKey();
}

async function finishSignIn(signedIn: Promise<SignedIn>): Promise<User> {
  const { token, user } = await signedIn;
  keepPageKey(token);
  return user;
}
export const setPassword = (currentPassword: string, newPassword: string) =>
  request<void>("POST", "/users/me/password", { currentPassword, newPassword });

export const tokens = async () => (await request<TokenList>("GET", "/tokens")).items;
export const changeToken = (id: string, changes: TokenChanges) => request<TokenInfo>("PATCH", `/tokens/${id}`, changes);
export const revokeToken = (id: string) => request<void>("DELETE", `/tokens/${id}`);
export const signOutElsewhere = () => request<void>("DELETE", "/tokens");

export const projects = () => all<Project>("/projects");
export const newProject = (project: NewProject) => request<Project>("POST", "/projects", project);
export const changeProject = (id: string, changes: ProjectChanges) =>
  request<Project>("PATCH", `/projects/${id}`, changes);
export const deleteProject = (id: string) => request<void>("DELETE", `/projects/${id}`);

export const providers = () => all<Provider>("/providers");
export const newProvider = (provider: NewProvider | object) => request<Provider>("POST", "/providers", provider);
export const changeProvider = (id: string, changes: ProviderChanges | object) =>
  request<Provider>("PATCH", `/providers/${id}`, changes);
export const deleteProvider = (id: string) => request<void>("DELETE", `/providers/${id}`);
export const listedModels = (id: string) => request<ListedModels>("GET", `/providers/${id}/models`);

export const drones = () => all<DroneRegistration>("/drones");
export const changeDrone = (id: string, changes: DroneChanges) =>
  request<DroneRegistration>("PATCH", `/drones/${id}`, changes);
export const revokeDrone = (id: string) => request<void>("DELETE", `/drones/${id}`);
export const newDroneToken = () => request<NewDroneToken>("POST", "/drones/tokens");
export const serviceVersion = () => request<ServiceVersion>("GET", "/version");

export const sessions = (cursor: string | null = null) =>
  request<Page<ListedSession>>("GET", "/sessions" + query({ limit: 100, cursor }));
export const pinnedSessions = () => all<ListedSession>("/sessions", { pinned: "true" });
export const archivedSessions = () => all<ListedSession>("/sessions", { archived: "true" });
export const searchSessions = (q: string) =>
  request<Page<SearchHit>>("GET", "/sessions/search" + query({ q, limit: 20 }));
export const newSession = (session: NewSession) => request<ChatSession>("POST", "/sessions", session);
export const changeSession = (id: string, changes: SessionChanges) =>
  request<ChatSession>("PATCH", `/sessions/${id}`, changes);
export const deleteSession = (id: string) => request<void>("DELETE", `/sessions/${id}`);
export const fork = (id: string, body: NewFork) => request<ChatSession>("POST", `/sessions/${id}/fork`, body);
export const revert = (id: string, body: NewRevert) => request<Reverted>("POST", `/sessions/${id}/revert`, body);
export const redo = (id: string) => request<Reverted>("POST", `/sessions/${id}/redo`);
export const sessionDiff = (id: string, scope: "session" | "uncommitted") =>
  request<Diff>("GET", `/sessions/${id}/diff` + query({ scope }));

export const turns = (session: string, limit: number, cursor: string | null = null) =>
  request<Page<ChatTurn>>("GET", `/sessions/${session}/turns` + query({ limit, cursor }));
export const turn = (id: string) => request<ChatTurn>("GET", `/turns/${id}`);
export const putQueueOrder = (session: string, prompts: string[]) =>
  request<Queue>("PUT", `/sessions/${session}/queue`, { prompts });
export const turnDiff = (id: string) => request<Diff>("GET", `/turns/${id}/diff`);
export const steps = (turn: string) => all<TurnEvent>(`/turns/${turn}/steps`);

export const pendingInquiries = () => all<Inquiry>("/inquiries", { status: "pending" });
export const seenTurn = (turn: string) => request<void>("POST", `/turns/${turn}/seen`);
export const storage = () => request<StorageUsage>("GET", "/usage/storage");
export const usage = (by: UsageBy, from: string) => request<UsageReport>("GET", "/usage" + query({ by, from }));

export const putImage = (image: Blob) => upload<ImageRef>("/images", image);
