import type { FastifyReply } from 'fastify'
import { expect, test } from 'vitest'
import { sendPage } from '../../../src/admin/api/list.ts'

const itemsOf = (...ids: readonly string[]) => ids.map((id) => ({ id, title: id, text: id, meters: [] }))

/** A page of one item, and the cursor of the next one. */
async function page(ids: readonly string[], cursor?: string) {
  const headers: Record<string, unknown> = {}
  const reply = {
    request: { url: '/api/plugins' },
    header: (name: string, value: unknown) => {
      headers[name] = value
    },
    type: () => undefined,
  } as object as FastifyReply
  const query = { limit: '1', ...(cursor !== undefined && { cursor }) }
  const body = await sendPage(itemsOf(...ids), query, reply, ({ id }) => JSON.stringify(id))
  const next = /cursor=([\w-]+)/.exec(String(headers.link))?.[1]
  return { ids: JSON.parse(String(body)), next }
}

test.each([
  ['stays', ['a', 'b', 'c', 'd', 'e'], ['d']],
  ['is the first one now', ['c', 'a', 'b', 'd', 'e'], ['a']],
  ['is farther behind now', ['a', 'b', 'd', 'c', 'e'], ['e']],
  ['is gone', ['a', 'b', 'd', 'e'], ['d']],
])('the next page begins behind the last item, if that %s', async (_, now, expected) => {
  const before = ['a', 'b', 'c', 'd', 'e']
  let cursor: string | undefined
  for (const id of ['a', 'b', 'c']) {
    const { ids, next } = await page(before, cursor)
    expect(ids).toEqual([id])
    cursor = next
  }
  expect((await page(now, cursor)).ids).toEqual(expected)
})
