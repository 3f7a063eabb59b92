import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { openMemoryStore } from '../../src/guest/store/memory.ts'
import { openRedisStore } from '../../src/guest/store/redis.ts'
import type { Store } from '../../src/guest/store/store.ts'

/** A kind of store, and how a test gets one that is empty. */
export interface StoreKind {
  readonly kind: Store['kind']
  /** @param now - A clock for its expiries; Redis has its own. */
  readonly open: (now?: () => number) => Promise<Store>
}

export const memoryStores: StoreKind = {
  kind: 'memory',
  open: async (now = Date.now) => closedAfter(openMemoryStore({ maxBytes: 67_108_864, now })),
}

export const lmdbStores: StoreKind = {
  kind: 'lmdb',
  open: async (now = Date.now) => closedAfter(await openLmdbStore({ folder: newFolder(), now })),
}

/** In one server, which tests share. */
export async function openRedis(port: number, timeoutMs = 2_000): Promise<Store> {
  return closedAfter(await openRedisStore({ url: new URL(`redis://127.0.0.1:${port}`), timeoutMs }))
}

/** A folder that is not there yet; removed when the test ends. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-store.'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'deep', 'store.d')
}

function closedAfter(store: Store): Store {
  onTestFinished(() => store.close())
  return store
}
