import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import type { FleetHead, FleetStore, NodeReport } from '../../src/deploy/fleet/fleet-store.ts'
import { sha256 } from '../../src/plugin/source/digest.ts'

/** The number of revisions that a tested store keeps. */
export const KEPT_REVISIONS = 5

/** Opens a new connection to the store of one test. */
export type OpenFleetStore = () => Promise<FleetStore>

/** Every kind of store passes it. @param begin - Called before each test; what it returns opens connections. */
export function testFleetStore(kind: string, begin: () => OpenFleetStore): void {
  describe(kind, () => {
    let store: FleetStore
    let open: OpenFleetStore

    beforeEach(async () => {
      open = begin()
      store = await open()
    })

    test('a new fleet has no head, no revisions and no nodes', async () => {
      expect((await store.head()).head).toBeUndefined()
      expect(await store.revisions()).toEqual([])
      expect((await store.nodes()).nodes).toEqual([])
    })

    test('a head is replaced only by who knows it', async () => {
      const first = headOf(1)
      expect(await store.write(undefined, first, [])).toBe('written')
      expect(await store.write(undefined, headOf(1), [])).toBe('changed')
      expect(await store.write('another tag', headOf(2), [])).toBe('changed')
      expect((await store.head()).head).toEqual(first)
      const second = headOf(2)
      expect(await store.write(first.tag, second, [])).toBe('written')
      expect((await store.head()).head).toEqual(second)
      expect((await store.revisions()).map(({ revision }) => revision)).toEqual([2, 1])
    })

    test('of many writers at once, one wins', async () => {
      await store.write(undefined, headOf(1, 'first'), [])
      const stores = await Promise.all(Array.from({ length: 5 }, open))
      const results = await Promise.all(stores.map((each) => each.write('first', headOf(2), [])))
      expect(results.filter((result) => result === 'written')).toHaveLength(1)
      expect(await store.revisions()).toHaveLength(2)
    })

    test('a step of a rollout is not a revision', async () => {
      const first = headOf(1)
      await store.write(undefined, first, [])
      const done: FleetHead = { ...first, tag: 'done', rollout: { ...first.rollout, phase: 'done' } }
      expect(await store.write(first.tag, done)).toBe('written')
      expect(await store.revisions()).toHaveLength(1)
      expect((await store.head()).head).toEqual(done)
    })

    test('a known head is not sent again', async () => {
      const first = headOf(1)
      await store.write(undefined, first, [])
      expect((await store.head(first.tag)).head).toBe('unchanged')
      expect((await store.report(reportOf('one'), first.tag)).head).toBe('unchanged')
      expect((await store.report(reportOf('one'), 'another')).head).toEqual(first)
    })

    test('contents come back as they were', async () => {
      const all = Uint8Array.from({ length: 256 }, (_, byte) => byte)
      const digest = sha256(all)
      expect(await store.content(digest)).toBeUndefined()
      await store.add(digest, all.subarray(0))
      await store.add(digest, all) // again
      expect(await store.content(digest)).toEqual(all)
      expect(await store.missing([digest, sha256('another')])).toEqual([sha256('another')])
    })

    test('a revision needs its contents', async () => {
      const digest = sha256('a')
      expect(await store.write(undefined, headOf(1), [digest])).toBe('missing')
      expect((await store.head()).head).toBeUndefined()
      await store.add(digest, Buffer.from('a'))
      expect(await store.write(undefined, headOf(1), [digest])).toBe('written')
    })

    test('contents go with the last revision that uses them', async () => {
      const [old, shared] = [sha256('old'), sha256('shared')]
      await store.add(old, Buffer.from('old'))
      await store.add(shared, Buffer.from('shared'))
      await store.write(undefined, headOf(1, 'tag 1'), [old, shared])
      for (let revision = 2; revision <= KEPT_REVISIONS; revision++)
        await store.write(`tag ${revision - 1}`, headOf(revision, `tag ${revision}`), [shared])
      expect(await store.missing([old, shared])).toEqual([])
      await store.write(`tag ${KEPT_REVISIONS}`, headOf(KEPT_REVISIONS + 1), [shared])
      expect(await store.missing([old, shared])).toEqual([old])
      const kept = (await store.revisions()).map(({ revision }) => revision)
      expect(kept).toEqual(Array.from({ length: KEPT_REVISIONS }, (_, index) => KEPT_REVISIONS + 1 - index))
    })

    test('the revision from which a rollout began stays with its contents, however many follow', async () => {
      const [served, skipped] = [sha256('served'), sha256('skipped')]
      await store.add(served, Buffer.from('served'))
      await store.add(skipped, Buffer.from('skipped'))
      const first = headOf(1, 'tag 1')
      const last = KEPT_REVISIONS + 3
      await store.write(undefined, first, [served])
      for (let revision = 2; revision <= last; revision++) {
        const next = { ...headOf(revision, `tag ${revision}`), before: first.newest }
        await store.write(`tag ${revision - 1}`, next, revision === 2 ? [skipped] : [])
      }
      expect((await store.revisions()).at(-1)).toEqual(first.newest)
      expect(await store.missing([served])).toEqual([])
      await store.write(`tag ${last}`, headOf(last + 1), [])
      expect(await store.revisions()).toHaveLength(KEPT_REVISIONS)
      expect(await store.missing([served, skipped])).toEqual([served, skipped])
    })

    test('nodes report themselves, and leave', async () => {
      const other = await open()
      await store.report(reportOf('b'))
      await other.report(reportOf('a'))
      await other.report({ ...reportOf('a'), revision: 7 })
      const { nodes, now } = await store.nodes()
      expect(nodes).toMatchObject([{ node: 'a', revision: 7 }, { node: 'b' }])
      for (const { seen } of nodes) expect(now - seen).toBeLessThan(10_000)
      await other.leave('a')
      expect((await store.nodes()).nodes).toMatchObject([{ node: 'b' }])
    })

    test('a report says whose record it replaces', async () => {
      const report = (instance: string) => store.report({ ...reportOf('a'), instance })
      expect((await report('first')).replaced).toBeUndefined()
      expect((await report('second')).replaced).toBe('first')
      expect((await report('second')).replaced).toBe('second')
    })

    test('times never go back', async () => {
      const first = (await store.head()).now
      const { now } = await store.report(reportOf('one'))
      expect(now).toBeGreaterThanOrEqual(first)
    })

    test('a write calls the listeners of other connections', async () => {
      const other = await open()
      const first = headOf(1)
      await store.write(undefined, first, [])
      // A subscription has begun when a message arrives: writes go on until then.
      await new Promise<void>((resolve) => {
        let tag = first.tag
        let isCalled = false
        other.onWrite(() => {
          isCalled = true
          resolve()
        })
        const again = async () => {
          if (isCalled) return
          const next = { ...first, tag: randomUUID() }
          await store.write(tag, next)
          tag = next.tag
          setTimeout(again, 5)
        }
        void again()
      })
    })
  })
}

export function headOf(revision: number, tag: string = randomUUID()): FleetHead {
  const digest = sha256(String(revision))
  return {
    tag,
    fleet: 'a-fleet',
    newest: {
      ...{ revision, id: randomUUID(), configuration: digest, edits: digest, by: 'a test', reason: 'é "1"' },
      at: '2026-01-01T00:00:00.000Z',
    },
    rollout: { phase: 'all', since: 1, nodes: [], canaryMs: 0, maxRefusals: 0, onRefusals: 'stop' },
  }
}

export function reportOf(node: string): NodeReport {
  return {
    ...{ node, instance: `of ${node}`, revision: 1, id: 'an id', since: 'now', from: 'fleet' },
    ...{ version: '1', plugins: {}, pluginCount: 0, pollMs: 2_000 },
  }
}
