import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Api, startWithAdmin, temporaryFolder } from '../support/admin-api.ts'
import { guest, guestBytes } from '../support/guest.ts'

/** The names of the plug-ins of a list of routes, in their order. */
const NAMES = ['delta', 'alpha', 'echo', 'bravo', 'charlie']

/** A configuration with a route for each name, at `/NAME`. */
function configOf(names: readonly string[]): string {
  const folder = temporaryFolder()
  const routes = names.map((name) => {
    writeFileSync(join(folder, `${name}.wasm`), guestBytes('moody'))
    return { plugin: `${name}.wasm`, url: `/${name}` }
  })
  writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify({ routes }))
  return folder
}

const startNames = (names = NAMES) => startWithAdmin([], configOf(names))

/** All pages of a list, from the first one on. */
async function pagesOf({ api }: Pick<Api, 'api'>, path: string) {
  const pages: Awaited<ReturnType<Api['api']>>[] = []
  for (let next: string | undefined = path; next !== undefined; ) {
    const page = await api('GET', next)
    expect(page.status).toBe(200)
    pages.push(page)
    next = /^<(.+)>; rel="next"$/.exec(page.headers.get('link') ?? '')?.[1]
  }
  return pages
}

/** A variable in a configuration. */
const HIDDEN = `\${HOOK}`

const urlsOf = (body: readonly { readonly url: string }[]) => body.map(({ url }) => url)

test('a list without parameters is one page with all of it, in the order of the configuration', async () => {
  const server = await startNames()
  for (const [path, field] of [
    ['/api/routes', 'plugin'],
    ['/api/plugins', 'name'],
  ] as const) {
    const [page, ...others] = await pagesOf(server, path)
    expect(page?.body.map((item: Record<string, unknown>) => item[field])).toEqual(NAMES)
    expect([page?.headers.get('x-total-count'), others]).toEqual(['5', []])
  }
})

test.each([
  '',
  '&sort=url',
  '&sort=calls',
  '&sort=guestMs',
])('the pages together have each route once: %s', async (sort) => {
  const server = await startNames()
  await server.post('/bravo', 'abc')
  await server.post('/alpha', 'abc')
  const [whole] = await pagesOf(server, `/api/routes?limit=1000${sort}`)
  for (const limit of [1, 2, 5]) {
    const pages = await pagesOf(server, `/api/routes?limit=${limit}${sort}`)
    expect(pages.map(({ body }) => body.length)).toEqual(
      Array.from({ length: Math.ceil(5 / limit) }, (_, page) => Math.min(limit, 5 - page * limit)),
    )
    expect(pages.flatMap(({ body }) => body)).toEqual(whole?.body)
    expect(new Set(pages.map(({ headers }) => headers.get('x-total-count')))).toEqual(new Set(['5']))
  }
})

test('a page begins after the last item of the page before, also when routes were added and removed', async () => {
  const { api } = await startNames()
  for (const [sort, expected] of [
    ['', ['/bravo', '/charlie']],
    ['&sort=url', ['/delta', '/echo']],
  ] as const) {
    const first = await api('GET', `/api/routes?limit=3${sort}`)
    const [, next = ''] = /^<(.+)>/.exec(first.headers.get('link') ?? '') ?? []
    for (const url of ['/aardvark', '/bee']) await api('POST', '/api/routes', { plugin: 'echo', url })
    const second = await api('GET', next)
    expect(urlsOf(second.body).slice(0, 2)).toEqual(expected)
    await api('DELETE', `/api/routes/${first.body[2].id}`)
    expect(urlsOf((await api('GET', next)).body).slice(0, 2)).toEqual(expected)
    await api('DELETE', '/api/changes')
  }
})

test('the routes and plug-ins that were called most, failed most or ran longest come first', async () => {
  const { api, post } = await startNames()
  for (const [path, body] of [
    ['/bravo', 'abc'],
    ['/bravo', 'E'], // the guest's own error is no failure
    ['/bravo', 'abc'],
    ['/charlie', 'T'],
    ['/charlie', 'abc'],
    ['/delta', 'abc'],
  ] as const)
    await post(path, body)
  const { body: most } = await api('GET', '/api/routes?sort=calls&limit=2')
  expect(most).toMatchObject([
    { url: '/bravo', calls: 3, failures: 0 },
    { url: '/charlie', calls: 2, failures: 1 },
  ])
  expect(most[0].guestMs).toBeGreaterThan(0)
  const { body: failed } = await api('GET', '/api/plugins?sort=failures')
  expect(failed.map(({ name }: { name: string }) => name)).toEqual([
    'charlie',
    ...NAMES.filter((name) => name !== 'charlie'),
  ])
  expect(failed[0]).toMatchObject({ calls: 2, failures: 1 })
  const { body: longest } = await api('GET', '/api/routes?sort=guestMs')
  const times = longest.map(({ guestMs }: { guestMs: number }) => guestMs)
  expect(times).toEqual(times.toSorted((a: number, b: number) => b - a))
  expect((await api('GET', `/api/routes/${most[0].id}`)).body).toEqual(most[0])
  expect((await api('GET', '/api/plugins/bravo')).body).toMatchObject({ calls: 3, failures: 0 })
})

test('a search finds URLs, functions, names and file names, in any case', async () => {
  const { api } = await startNames()
  await api('POST', '/api/routes', { plugin: 'echo', url: '/Some/Where', host: 'a.test' })
  const routes = async (query: string) => urlsOf((await api('GET', `/api/routes?${query}`)).body)
  expect(await routes('search=some/w')).toEqual(['/Some/Where'])
  expect(await routes('search=A.TEST')).toEqual(['/Some/Where'])
  expect(await routes('search=echo')).toEqual(['/echo', '/Some/Where'])
  expect(await routes('search=bravo.wasm')).toEqual(['/bravo'])
  expect(await routes('search=nothing')).toEqual([])
  expect(await routes('search=')).toHaveLength(6)
  expect(await routes('plugin=echo&search=test')).toEqual(['/Some/Where'])
  expect(await routes('plugin=ech')).toEqual([])
  const plugins = await api('GET', '/api/plugins?search=where')
  expect(plugins.body).toMatchObject([{ name: 'echo' }])
  expect(plugins.headers.get('x-total-count')).toBe('1')
})

test('a search does not tell what answers hide', async () => {
  const folder = temporaryFolder()
  const routes = [{ plugin: guest('echo'), url: `/hook/${HIDDEN}`, config: { key: HIDDEN } }]
  writeFileSync(join(folder, 'wasm-serve.json'), JSON.stringify({ routes }))
  const { api } = await startWithAdmin([], folder, { HOOK: 'confidential' })
  const found = async (search: string) =>
    urlsOf((await api('GET', `/api/routes?search=${encodeURIComponent(search)}`)).body)
  expect(await found('')).toEqual([`/hook/${HIDDEN}`])
  expect(await found('confid')).toEqual([])
  expect(await found(HIDDEN)).toHaveLength(1)
})

test('wrong parameters are refused, and named', async () => {
  const { api } = await startNames()
  const refused = async (path: string, detail: string) => {
    const { status, body } = await api('GET', path)
    expect([path, status, body]).toMatchObject([
      path,
      400,
      { code: 'WASM_SERVE_ADMIN_REQUEST_INVALID', detail },
    ])
  }
  const cursor = (json: string) => `cursor=${Buffer.from(json).toString('base64url')}`
  for (const list of ['/api/routes', '/api/plugins']) {
    for (const limit of ['0', '1001', '-1', 'ten', '', '1&limit=2'])
      await refused(`${list}?limit=${limit}`, 'Invalid value for query parameter limit')
    for (const sort of ['colour', ''])
      await refused(`${list}?sort=${sort}`, 'Invalid value for query parameter sort')
    await refused(`${list}?search=${'x'.repeat(201)}`, 'Invalid value for query parameter search')
    for (const query of ['cursor=abc', 'cursor=', cursor('{}'), cursor('["calls",0,0,"a"]')])
      await refused(`${list}?${query}`, 'Invalid value for query parameter cursor')
    await refused(`${list}?page=2`, 'Unknown query parameter page')
  }
  const id = '0'.repeat(12)
  for (const ids of ['x', id.slice(1), Array(201).fill(id).join()])
    await refused(`/api/live?routes=${ids}`, 'Invalid value for query parameter routes')
})

test('the counts of some routes are asked for, and those of all together', async () => {
  const { api, post } = await startNames()
  for (const path of ['/alpha', '/alpha', '/bravo']) await post(path, 'abc')
  const { body: routes } = await api('GET', '/api/routes?search=alpha')
  const live = async (query: string) => (await api('GET', `/api/live${query}`)).body
  expect(await live(`?routes=${routes[0].id},${'0'.repeat(12)}`)).toMatchObject({
    routes: 5,
    plugins: 5,
    total: { outcomes: { ok: 3 }, instances: 5 },
    meters: [{ route: '/alpha', outcomes: { ok: 2 } }],
  })
  expect((await live('?routes=')).meters).toEqual([])
  expect((await live('')).meters).toHaveLength(5)
})
