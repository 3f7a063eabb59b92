import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { start } from '../support/cli.ts'
import { writeConfigMap } from '../support/config-map.ts'
import { guest, guestBytes } from '../support/guest.ts'
import { startLoad } from '../support/load.ts'

const [ECHO, UPPER] = [guestBytes('echo'), guestBytes('upper')]

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-config-map-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

async function ask(url: string) {
  const answer = await fetch(url, { method: 'POST', body: 'abc' })
  return [answer.status, await answer.text()]
}

test('--watch follows the plug-ins of a ConfigMap, which are links through a link that is replaced', async () => {
  const plugins = folder()
  writeConfigMap(plugins, { 'one.wasm': ECHO })
  const server = start([plugins, '0', '--watch'])
  const url = await server.listening()
  expect(await ask(`${url}/one`)).toEqual([200, 'abc'])
  writeConfigMap(plugins, { 'one.wasm': UPPER, 'two.wasm': ECHO })
  await server.logged('"changed"', 1)
  expect([await ask(`${url}/one`), await ask(`${url}/two`)]).toEqual([
    [200, 'ABC'],
    [200, 'abc'],
  ])
  writeConfigMap(plugins, { 'two.wasm': UPPER })
  await server.logged('"changed"', 2)
  expect([(await ask(`${url}/one`))[0], await ask(`${url}/two`)]).toEqual([404, [200, 'ABC']])
})

test('--watch follows a configuration file in a ConfigMap; what is wrong is not applied, and no request is lost', async () => {
  const config = folder()
  const write = (plugin: string, more = {}) => {
    const content = { watch: true, port: 0, routes: [{ url: '/', plugin: guest(plugin) }], ...more }
    writeConfigMap(config, { 'wasm-serve.json': JSON.stringify(content) })
  }
  write('echo')
  const server = start(['-c', join(config, 'wasm-serve.json')])
  const url = await server.listening()
  const load = startLoad({
    url: `${url}/`,
    body: (id) => `id ${id}`,
    isAnswer: (answer, body) => answer === body || answer === body.toUpperCase(),
  })
  for (let swap = 1; swap <= 5; swap++) {
    await load.answered(50)
    write(swap % 2 === 0 ? 'echo' : 'upper')
    await server.logged('"changed"', swap)
  }
  expect(await ask(url)).toEqual([200, 'ABC'])
  write('echo', { drainMS: 1 })
  await server.logged('WASM_SERVE_', 1)
  expect(await ask(url)).toEqual([200, 'ABC'])
  expect(await load.stop()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0, closing: 0 })
})
