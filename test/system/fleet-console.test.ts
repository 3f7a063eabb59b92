import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApi, TOKEN, temporaryFolder } from '../support/admin-api.ts'
import { openPage } from '../support/browser.ts'
import { run, start } from '../support/cli-process.ts'
import { faintTexts, namelessElements } from '../support/contrast.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'

describeWith(['chromium', 'redis-server'], () => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())

  /** Two nodes, and the console of the first one. */
  async function enter(fleet: string, options: Parameters<typeof openPage>[1] = {}) {
    const folder = temporaryFolder()
    const file = join(folder, 'fleet.json')
    const configure = (url: string, config: object = {}) => {
      const shared = { url: `redis://127.0.0.1:${redis.port}`, name: fleet, pollMs: 100 }
      const routes = [{ url, plugin: 'echo', config }]
      writeFileSync(
        file,
        JSON.stringify({ fleet: shared, plugins: { echo: { source: 'echo.wasm' } }, routes }),
      )
    }
    const apply = async (env: NodeJS.ProcessEnv = {}) => {
      const { stderr } = await run(['fleet', 'apply', '-f', file, '--wait', '--by', 'ci'], env)
      return stderr
    }
    writeFileSync(join(folder, 'echo.wasm'), guestBytes('echo'))
    configure('/one')
    expect(await apply()).toBe('')
    const [one, two] = await Promise.all(
      ['node-1', 'node-2'].map((node) => startApi(start, ['-c', file, '--fleet-node', node], folder)),
    )
    if (!one || !two) throw new Error('two nodes were started')
    const { page, mishaps } = await openPage(one.adminUrl, options)
    await page.goto(`${one.adminUrl}/#token=${TOKEN}`)
    await page.getByRole('heading', { level: 1, name: 'Routes' }).waitFor()
    await page.getByRole('link', { name: 'Fleet' }).click()
    await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor()
    return { page, mishaps, one, two, configure, apply }
  }

  test('the console shows the nodes with their plug-ins, follows a revision, and rolls it back', async () => {
    const { page, mishaps, one, two, configure, apply } = await enter('followed')
    const nodes = page.getByRole('region', { name: 'Nodes' })
    const history = page.getByRole('region', { name: 'History' })
    await nodes.getByRole('row', { name: /^node-1 .*this server.*Serving.*1.*echo/ }).waitFor()
    await nodes.getByRole('row', { name: /^node-2 .*Serving.*1.*echo/ }).waitFor()

    configure('/two')
    expect(await apply()).toBe('')
    await history.getByRole('row', { name: /^2 .*ci.*Newest/ }).waitFor()
    expect((await two.post('/two', 'abc'))[1]).toBe('abc')
    await history.getByRole('button', { name: 'Roll back to 1' }).click()
    await page.getByText('Revision 3 is stored. It restores revision 1.').waitFor()
    await history.getByRole('row', { name: /^3 .*back to revision 1.*Newest/ }).waitFor()
    await expect.poll(async () => (await two.post('/one', 'abc'))[1]).toBe('abc')
    expect((await one.post('/one', 'abc'))[1]).toBe('abc')
    expect(mishaps).toEqual([])
  })

  test('the console shows a refusal with its reason, and a node that is gone', async () => {
    const { page, mishaps, two, configure, apply } = await enter('refused')
    configure('/two', { token: `\${NOT_HERE}` })
    expect(await apply({ NOT_HERE: 'yes' })).toContain('WASM_SERVE_FLEET_NOT_APPLIED')
    const nodes = page.getByRole('region', { name: 'Nodes' })
    await nodes
      .getByRole('row', { name: /^node-2 .*Refused.*NOT_HERE.*WASM_SERVE_FLEET_FORBIDDEN/ })
      .waitFor()
    const newest = page.getByRole('region', { name: 'Newest revision' })
    await newest.getByText('Stopped', { exact: true }).waitFor()
    two.child.kill('SIGKILL')
    await nodes.getByRole('row', { name: /^node-2 .*Lost/ }).waitFor()
    expect(mishaps).toEqual([])
  })

  test.each([
    ['light', 1280],
    ['dark', 400],
  ] as const)('the fleet can be read and heard: %s, %i px', async (colorScheme, width) => {
    const { page, mishaps } = await enter(colorScheme, { colorScheme, viewport: { width, height: 800 } })
    await page.getByText('node-2').waitFor()
    expect(await faintTexts(page)).toEqual([])
    expect(await namelessElements(page)).toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth > 0)).toBe(false)
    expect(mishaps).toEqual([])
  })

  test('a server that is no node has no view of a fleet', async () => {
    const { adminUrl } = await startApi(start, [guest('echo')])
    const { page, mishaps } = await openPage(adminUrl)
    await page.goto(`${adminUrl}/#token=${TOKEN}`)
    await page.getByRole('link', { name: 'Processes' }).waitFor()
    expect(await page.getByRole('link', { name: 'Fleet' }).count()).toBe(0)
    await page.goto(`${adminUrl}/#/fleet`)
    await page.getByText('This server is not a node of a fleet.').waitFor()
    expect(mishaps).toEqual([])
  })
})
