/** What sessions are made of: projects, providers, drones. */
import * as api from "../api/resources";
import type { DroneRegistration, Project, Provider } from "../api/types";
import type { Connection } from "../live/connection.svelte";

export class Fleet {
  projects = $state.raw<Project[]>([]);
  providers = $state.raw<Provider[]>([]);
  drones = $state.raw<DroneRegistration[]>([]);
  isLoaded = $state(false);
  error = $state<string | null>(null);
  private stops: (() => void)[] = [];

  constructor(private readonly connection: Connection) {}

  open(): void {
    this.stops = [
      this.connection.on("droneStatus", ({ drone }) => (this.drones = withOne(this.drones, drone))),
      this.connection.onOnline(() => void this.refresh()),
    ];
  }

  close(): void {
    for (const stop of this.stops) stop();
    this.stops = [];
  }

  async refresh(): Promise<void> {
    try {
      [this.projects, this.providers, this.drones] = await Promise.all([api.projects(), api.providers(), api.drones()]);
      this.isLoaded = true;
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
  }

  putProject(project: Project): void {
    this.projects = withOne(this.projects, project);
  }

  putProvider(provider: Provider): void {
    this.providers = withOne(this.providers, provider);
  }

  putDrone(drone: DroneRegistration): void {
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

  /** Whether there is all that a session needs. */
  get isReady(): boolean {
    return this.projects.length > 0 && this.providers.some((p) => p.models.length > 0) && this.drones.length > 0;
  }
}

function withOne<Item extends { _id: string }>(items: Item[], one: Item): Item[] {
  const others = items.filter((item) => item._id !== one._id);
  return [...others, one].sort((a, b) => (a._id < b._id ? 1 : -1));
}
