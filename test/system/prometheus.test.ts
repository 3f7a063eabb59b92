import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { start } from '../support/cli-process.ts'
import { file, guestBytes } from '../support/guest.ts'
import { describeWith } from '../support/tools.ts'
import { ROOT } from '../support/user-package.ts'

describeWith(['promtool'], () => {
  test('Prometheus takes the rules', () => {
    const path = join(ROOT, 'deploy/prometheus/alerts.yaml')
    const rules = parse(readFileSync(path, 'utf8')).groups.flatMap(({ rules }: { rules: object[] }) => rules)
    const said = execFileSync('promtool', ['check', 'rules', path], { encoding: 'utf8' })
    expect(said).toContain(`SUCCESS: ${rules.length} rules found`)
  })

  test('Prometheus takes the metrics, whatever the plug-in and its route are called', async () => {
    const own = await ownMetrics()
    expect(execFileSync('promtool', ['check', 'metrics'], { input: own, encoding: 'utf8' })).toBe('')
    const [call = ''] = own.split('\n').filter((line) => line.includes('outcome="ok"'))
    expect(call).toBe(
      String.raw`wasm_serve_calls_total{route="/a/:id",plugin="q\"b\\s",digest="${digestIn(own)}",outcome="ok"} 1`,
    )
  })
})

test('without prom-client there are the metrics of wasm-serve, and none of the process', async () => {
  const text = await ownMetrics()
  expect(text).toMatch(/^# TYPE wasm_serve_calls_total counter$/m)
  expect(text).not.toMatch(/^# TYPE (?!wasm_serve_)/m)
})

/** What a server without prom-client answers at `/metrics`, after one call of a plug-in with a name that has to be escaped. */
async function ownMetrics(): Promise<string> {
  const plugin = file('q"b\\s.wasm', guestBytes('echo'))
  const config = { port: 0, admin: '127.0.0.1:0', routes: [{ plugin, url: '/a/:id' }] }
  const missing = file(
    'missing.mjs',
    `import { register } from 'node:module'; register(${JSON.stringify(HOOKS)})`,
  )
  const server = start(['-c', file('metrics.json', JSON.stringify(config))], {
    NODE_OPTIONS: `--import ${missing}`,
  })
  await server.logged('WASM_SERVE_PACKAGE_MISSING')
  const url = await server.listening()
  await (await fetch(`${url}/a/1`, { method: 'POST', body: 'x' })).text()
  const [admin = ''] = /http:\/\/127[\w.:]+(?=\/#)/.exec(server.stderr()) ?? []
  const answer = await fetch(`${admin}/metrics`)
  expect(answer.status).toBe(200)
  return answer.text()
}

/** Hooks of Node.js by which the package is not found. */
const HOOKS = `data:text/javascript,${encodeURIComponent(`
  export async function resolve(name, context, next) {
    if (name !== 'prom-client') return next(name, context)
    throw Object.assign(new Error("Cannot find package 'prom-client'"), { code: 'ERR_MODULE_NOT_FOUND' })
  }
`)}`

function digestIn(text: string): string {
  return /digest="([\da-f]{12})"/.exec(text)?.[1] ?? ''
}
