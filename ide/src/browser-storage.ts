/** Stores values as JSON in localStorage. The page also works without storage: a browser can refuse it, or it can be full. */

export interface KeyValueStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

/** Returns the stored value of `key`; `otherwise` if there is none, or it is unreadable. */
export function readStored<Value>(key: string, otherwise: Value, storage?: KeyValueStorage): Value {
  try {
    return (JSON.parse((storage ?? localStorage).getItem(key) ?? "null") as Value | null) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** Stores a value. If this fails, the value lasts until the page closes. */
export function store(key: string, value: unknown, storage?: KeyValueStorage): void {
  try {
    (storage ?? localStorage).setItem(key, JSON.stringify(value));
  } catch {
    // The page goes on without it.
  }
}
