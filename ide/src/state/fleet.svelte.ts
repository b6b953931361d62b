/** The projects, providers and drones of the user: every session needs one of each. */
import { errorText } from "../api/http";
import * as api from "../api/resources";
import type { DroneRegistration, Project, ProjectChanges, Provider } from "../api/types";
import type { Connection } from "../live/connection.svelte";
import { PushTracker } from "../live/push-tracker";
import { SerialQueue } from "./serial-queue";

export class Fleet {
  projects = $state.raw<Project[]>([]);
  providers = $state.raw<Provider[]>([]);
  drones = $state.raw<DroneRegistration[]>([]);
  isLoaded = $state(false);
  error = $state<string | null>(null);
  private readonly pushTracker = new PushTracker();
  private readonly changes = new SerialQueue();
  private stops: (() => void)[] = [];

  constructor(private readonly connection: Connection) {}

  open(): void {
    this.stops = [
      this.connection.on("droneStatus", ({ drone }) => this.putDrone(drone)),
      this.connection.onOnline(() => void this.refresh()),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
  }

  async refresh(): Promise<void> {
    try {
      const asks = Promise.all([api.projects(), api.providers(), api.drones()]);
      const [[projects, providers, drones], newer] = await this.pushTracker.track(asks);
      this.projects = mergePushed(this.projects, projects, newer);
      this.providers = mergePushed(this.providers, providers, newer);
      this.drones = mergePushed(this.drones, drones, newer);
      this.isLoaded = true;
      this.error = null;
    } catch (error) {
      this.error = errorText(error);
    }
  }

  async changeProject(id: string, changes: (project: Project) => ProjectChanges): Promise<void> {
    await this.changes.run(async () => {
      const project = this.project(id);
      if (project !== undefined) this.putProject(await api.changeProject(id, changes(project)));
    });
  }

  putProject(project: Project): void {
    this.pushTracker.pushed(project._id);
    this.projects = withOne(this.projects, project);
  }

  putProvider(provider: Provider): void {
    this.pushTracker.pushed(provider._id);
    this.providers = withOne(this.providers, provider);
  }

  putDrone(drone: DroneRegistration): void {
    this.pushTracker.pushed(drone._id);
    this.drones = withOne(this.drones, drone);
  }

  project(id: string): Project | undefined {
    return this.projects.find((project) => project._id === id);
  }

  provider(id: string): Provider | undefined {
    return this.providers.find((provider) => provider._id === id);
  }

  drone(id: string | null | undefined): DroneRegistration | undefined {
    return this.drones.find((drone) => drone._id === id);
  }

  /** Whether there is a project, a model and a drone: all that a session needs. */
  get isReady(): boolean {
    return this.projects.length > 0 && this.providers.some((p) => p.models.length > 0) && this.drones.length > 0;
  }
}

function withOne<Item extends { _id: string }>(items: Item[], one: Item): Item[] {
  return inOrder([...items.filter((item) => item._id !== one._id), one]);
}

/** Merges a list from the service. The known items stay for the ids in `newer`, which were pushed since the request. */
function mergePushed<Item extends { _id: string }>(known: Item[], answered: Item[], newer: ReadonlySet<string>): Item[] {
  return inOrder([...answered.filter((item) => !newer.has(item._id)), ...known.filter((item) => newer.has(item._id))]);
}

function inOrder<Item extends { _id: string }>(items: Item[]): Item[] {
  return items.sort((a, b) => (a._id < b._id ? 1 : -1));
}
