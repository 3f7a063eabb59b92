import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { commandConfiguration } from '../../src/deploy/configuration.ts'
import type { Deployments } from '../../src/deploy/deployments.ts'
import { type Configuration, desiredState } from '../../src/deploy/desired-state.ts'
import { NO_EDITS } from '../../src/deploy/edits.ts'
import { PluginTable } from '../../src/deploy/loader.ts'
import { openServed, serveBy } from '../../src/deploy/serve-states.ts'
import type { ServedState, ServingSide } from '../../src/deploy/serving-side.ts'
import { openLog } from '../../src/observe/log/log.ts'
import { Secrets } from '../../src/observe/log/secrets.ts'
import { readConfig } from '../../src/options/config.ts'
import { bytesOf } from '../../src/plugin/source/module-bytes.ts'
import { temporaryFolder } from './admin-api.ts'
import { guest } from './guest.ts'

/** A serving side and the deployments behind it. */
export interface ServingFixture {
  readonly side: ServingSide
  readonly deployments: Deployments
}

/** Opens a serving side of one kind over the local one. @param module - Fetches a module of the control side. */
export type OpenSide = (
  state: ServedState,
  module: (digest: string) => Promise<Uint8Array>,
) => Promise<ServingFixture>

/** The local serving side. */
export const openLocalSide: OpenSide = async (state, module) => {
  const deployments = await openServed(state, { module, begin: () => ({ log: openLog('silent') }) })
  onTestFinished(async () => {
    await deployments.current.app.close()
    await deployments.close()
  })
  return { deployments, side: serveBy(deployments, state.revision) }
}

/** What a control side has: states, and the bytes of their modules. */
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
      const around = { environment: {}, secrets: new Secrets(), commands: {} }
      const source = commandConfiguration(readConfig(['-c', file], {}), around)
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

/** Every kind of serving side passes it. */
export function testServingSide(kind: string, open: OpenSide): void {
  describe(kind, () => {
    let control: ReturnType<typeof openControl>
    let fixture: ServingFixture

    const echo = { url: '/', plugin: guest('echo') }
    const upper = { url: '/', plugin: guest('upper') }
    const says = async (body: string) => {
      const answer = await fixture.deployments.current.app.inject({ method: 'POST', url: '/', payload: body })
      return answer.body
    }

    beforeEach(async () => {
      control = openControl()
      fixture = await open(await control.state(3, [echo]), control.module)
    })

    test('what is prepared is not served before it is committed', async () => {
      const { side } = fixture
      const { routes, kept } = await side.prepare(await control.state(4, [upper]), 'test')
      expect([routes, kept]).toEqual([[expect.objectContaining({ url: '/', plugin: 'upper' })], 0])
      expect(await says('abc')).toBe('abc')
      expect(await side.status()).toMatchObject({ revision: 3, prepared: 4 })
      await side.commit(4)
      expect(await says('abc')).toBe('ABC')
      expect(await side.status()).toMatchObject({ revision: 4, prepared: undefined })
    })

    test('what is aborted changes nothing, and cannot be committed', async () => {
      const { side } = fixture
      await side.prepare(await control.state(4, [upper]), 'test')
      await side.abort(4)
      await side.abort(4)
      await expect(side.commit(4)).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
      expect(await says('abc')).toBe('abc')
      expect(await side.status()).toMatchObject({ revision: 3, prepared: undefined })
    })

    test('a state that cannot be served fails with its reason, and the next one is prepared', async () => {
      const { side } = fixture
      const bad = { ...echo, smoke: { body: 'abc', answer: 'xyz' } }
      await expect(side.prepare(await control.state(4, [bad]), 'test')).rejects.toMatchObject({
        code: 'WASM_SERVE_SMOKE_FAILED',
      })
      expect(await side.status()).toMatchObject({ revision: 3, prepared: undefined })
      await side.prepare(await control.state(4, [upper]), 'test')
      await side.commit(4)
      expect(await says('abc')).toBe('ABC')
    })

    test('a module that cannot be fetched fails the change', async () => {
      const other = openControl() // whose modules the side cannot fetch
      await expect(fixture.side.prepare(await other.state(4, [upper]), 'test')).rejects.toThrow()
      expect(await fixture.side.status()).toMatchObject({ revision: 3, prepared: undefined })
    })

    test('a newer state takes the place of one that is prepared', async () => {
      const { side } = fixture
      await side.prepare(await control.state(4, [upper]), 'test')
      await side.prepare(await control.state(5, [{ ...echo, url: '/more' }, echo]), 'test')
      await expect(side.commit(4)).rejects.toMatchObject({ code: 'WASM_SERVE_CHANGE_REFUSED' })
      await side.commit(5)
      expect(fixture.deployments.current.served.map(({ url }) => url)).toEqual(['/more', '/'])
    })

    test('a state that is not newer than the live one is refused', async () => {
      const state = await control.state(3, [upper])
      await expect(fixture.side.prepare(state, 'test')).rejects.toMatchObject({
        code: 'WASM_SERVE_CHANGE_REFUSED',
      })
      expect(await says('abc')).toBe('abc')
    })

    test('a preparation ends when its signal does', async () => {
      const ended = new AbortController()
      const preparing = fixture.side.prepare(await control.state(4, [upper]), 'test', ended.signal)
      ended.abort(new Error('enough'))
      await expect(preparing).rejects.toThrow()
      expect(await fixture.side.status()).toMatchObject({ revision: 3, prepared: undefined })
    })

    test('states that share a configuration keep the instances of their routes', async () => {
      const { side } = fixture
      const before = await control.state(4, [echo])
      await side.prepare(before, 'test')
      await side.commit(4)
      expect(await side.prepare({ ...before, revision: 5 }, 'test')).toMatchObject({ kept: 1 })
      await side.commit(5)
      await side.prepare(await control.state(6, [upper]), 'test')
      await side.abort(6)
      expect(await side.prepare({ ...before, revision: 6 }, 'test')).toMatchObject({ kept: 1 })
      await side.commit(6)
      expect(await says('abc')).toBe('abc')
    })
  })
}
