import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { commandConfiguration } from '../../src/deploy/configuration.ts'
import { type Configuration, desiredState } from '../../src/deploy/desired-state.ts'
import { NO_EDITS } from '../../src/deploy/edits.ts'
import { PluginTable } from '../../src/deploy/loader.ts'
import { type LocalReplica, openLocalReplica } from '../../src/deploy/local-replica.ts'
import type { Replica, ServedState } from '../../src/deploy/replica.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { readConfig } from '../../src/options/config.ts'
import { bytesOf } from '../../src/plugin/source/module-bytes.ts'
import { temporaryFolder } from './admin-api.ts'
import { guest } from './guest.ts'
import { planReceived } from './in-process.ts'

/** A replica, and the one of this process that serves for it. */
interface ReplicaFixture {
  readonly replica: Replica
  readonly local: LocalReplica
  /** Default: the test closes the local one. */
  close?(): Promise<void>
}

/** Opens a replica of one kind. @param module - Fetches a module of the state. */
export type OpenReplica = (
  state: ServedState,
  module: (digest: string) => Promise<Uint8Array>,
) => Promise<ReplicaFixture>

/** The local one. */
export const openLocal: OpenReplica = async (state, module) => {
  const first = await planReceived(state, module)
  const local = await openLocalReplica(first, { log: openLog('silent'), revision: state.revision })
  return { local, replica: local }
}

/** What the owner of replicas has: states, and the bytes of their modules. */
export function openControl() {
  const plugins = new PluginTable()
  const folder = temporaryFolder()
  return {
    async module(digest: string) {
      const bytes = plugins.modules.get(digest)
      if (!bytes) throw new Error(`there is no module ${digest}`)
      return bytesOf(bytes)
    },
    /** The configuration of some routes. */
    async configuration(routes: readonly object[]): Promise<Configuration> {
      const file = join(folder, 'wasm-serve.json')
      writeFileSync(file, JSON.stringify({ routes, stallMs: 0 }))
      const context = { environment: {}, secrets: new Secrets(), commands: {} }
      const source = commandConfiguration(readConfig(['-c', file], {}), context)
      const failures: unknown[] = []
      const found = await source.read({ plugins }, (error) => failures.push(error))
      if (!found || failures.length > 0) throw failures[0]
      return found
    },
    async state(revision: number, routes: readonly object[]): Promise<ServedState> {
      const configuration = await this.configuration(routes)
      return { revision, configuration, edits: desiredState(configuration, NO_EDITS, revision).edits }
    },
  }
}

/** Every kind of replica passes it. */
export function testReplica(kind: string, open: OpenReplica): void {
  describe(kind, () => {
    let control: ReturnType<typeof openControl>
    let fixture: ReplicaFixture

    const echo = { url: '/', plugin: guest('echo') }
    const upper = { url: '/', plugin: guest('upper') }
    const says = async (body: string) => {
      const answer = await fixture.local.app.inject({ method: 'POST', url: '/', payload: body })
      return answer.body
    }

    beforeEach(async () => {
      control = openControl()
      fixture = await open(await control.state(3, [echo]), control.module)
      const { local, close } = fixture
      onTestFinished(async () => {
        await local.app.close()
        await (close ?? (() => local.close()))()
      })
    })

    test('what is prepared is not served before it is committed', async () => {
      const { replica } = fixture
      const { routes, kept } = await replica.prepare(await control.state(4, [upper]), 'test')
      expect([routes, kept]).toEqual([[expect.objectContaining({ url: '/', plugin: 'upper' })], 0])
      expect(await says('abc')).toBe('abc')
      expect(await replica.status()).toMatchObject({ revision: 3, prepared: 4 })
      await replica.commit(4)
      expect(await says('abc')).toBe('ABC')
      expect(await replica.status()).toMatchObject({ revision: 4, prepared: undefined })
    })

    test('what is aborted changes nothing, and cannot be committed', async () => {
      const { replica } = fixture
      await replica.prepare(await control.state(4, [upper]), 'test')
      await replica.abort(4)
      await replica.abort(4)
      await expect(replica.commit(4)).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
      expect(await says('abc')).toBe('abc')
      expect(await replica.status()).toMatchObject({ revision: 3, prepared: undefined })
    })

    test('a state that cannot be served fails with its reason, and the next one is prepared', async () => {
      const { replica } = fixture
      const bad = { ...echo, smoke: { body: 'abc', answer: 'xyz' } }
      await expect(replica.prepare(await control.state(4, [bad]), 'test')).rejects.toMatchObject({
        code: 'WASM_SERVE_SMOKE_FAILED',
      })
      expect(await replica.status()).toMatchObject({ revision: 3, prepared: undefined })
      await replica.prepare(await control.state(4, [upper]), 'test')
      await replica.commit(4)
      expect(await says('abc')).toBe('ABC')
    })

    test('a module that cannot be fetched fails the change', async () => {
      const other = openControl() // whose modules the replica cannot fetch
      await expect(fixture.replica.prepare(await other.state(4, [upper]), 'test')).rejects.toThrow()
      expect(await fixture.replica.status()).toMatchObject({ revision: 3, prepared: undefined })
    })

    test('a newer state takes the place of one that is prepared', async () => {
      const { replica } = fixture
      await replica.prepare(await control.state(4, [upper]), 'test')
      await replica.prepare(await control.state(5, [{ ...echo, url: '/more' }, echo]), 'test')
      await expect(replica.commit(4)).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
      await replica.commit(5)
      expect(fixture.local.routes.map(({ url }) => url)).toEqual(['/more', '/'])
    })

    test('a state that is not newer than the live one is refused', async () => {
      const state = await control.state(3, [upper])
      await expect(fixture.replica.prepare(state, 'test')).rejects.toMatchObject({
        code: 'WASM_SERVE_CHANGE_REFUSED',
      })
      expect(await says('abc')).toBe('abc')
    })

    test('a preparation ends when its signal does', async () => {
      const ended = new AbortController()
      const preparing = fixture.replica.prepare(await control.state(4, [upper]), 'test', ended.signal)
      ended.abort(new Error('enough'))
      await expect(preparing).rejects.toThrow()
      expect(await fixture.replica.status()).toMatchObject({ revision: 3, prepared: undefined })
    })

    test('states that share a configuration keep the instances of their routes', async () => {
      const { replica } = fixture
      const before = await control.state(4, [echo])
      await replica.prepare(before, 'test')
      await replica.commit(4)
      expect(await replica.prepare({ ...before, revision: 5 }, 'test')).toMatchObject({ kept: 1 })
      await replica.commit(5)
      await replica.prepare(await control.state(6, [upper]), 'test')
      await replica.abort(6)
      expect(await replica.prepare({ ...before, revision: 6 }, 'test')).toMatchObject({ kept: 1 })
      await replica.commit(6)
      expect(await says('abc')).toBe('abc')
    })
  })
}
