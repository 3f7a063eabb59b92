import fc from 'fast-check'
import Fastify from 'fastify'
import { expect, test } from 'vitest'
import { isRoutable, mountAt } from '../../../src/deploy/mounts.ts'
import { runs } from '../../support/runs.ts'

test.each([
  ...['', '/', '*', 'a*', 'a?b', 'a#b', '.', '..', 'a/../b', 'a/.', '%2e%2e', '%41', 'a%2Fb'],
  ...[' ', 'a ', 'a\nb', 'a\tb', '\0', 'a\x7f', 'a\u009b', '\u202ea', 'a\\b', '\ud800'],
])('a plug-in or function is not served at %j', (name) => {
  expect(isRoutable(`/${name}`)).toBe(false)
})

/** The status of the URL that a client makes of a name, where only the plug-in of this name is served. */
async function statusOf(name: string): Promise<number> {
  const app = Fastify()
  app.get(mountAt(name, 'a.wasm').path, async () => 'served')
  const { pathname, search } = new URL(`http://host/${name.replaceAll('%', '%25')}`)
  return (await app.inject(pathname + search)).statusCode
}

test.each([
  ...[
    ' a',
    'a b',
    'a/b',
    'a//b',
    'a:b',
    ':a',
    '...',
    '.a',
    '100%',
    '%zz',
    'ä',
    '日本',
    'a;b&c=d+e@f',
    '(a)[b]{c}|^`"<>',
  ],
])('it is served at %j', async (name) => {
  expect(isRoutable(`/${name}`)).toBe(true)
  expect(await statusOf(name)).toBe(200)
})

test('whatever name is served, the URL with it leads there', async () => {
  const unit = fc.constantFrom(...'.%/\\?#*: 2eE(a)\t\u00a0\ud800é')
  const names = fc.string({ unit, maxLength: 5 }).filter((name) => isRoutable(`/${name}`))
  await fc.assert(
    fc.asyncProperty(names, async (name) => {
      expect(await statusOf(name)).toBe(200)
    }),
    { numRuns: runs(50) },
  )
})
