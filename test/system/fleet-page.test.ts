import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { CLI } from '../support/cli.ts'
import { blocksOf } from '../support/pages.ts'
import { pluginFile } from '../support/pdk.ts'
import { freePort } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'

/** Resolves when something listens on a port. */
async function listening(port: number, child: ChildProcess): Promise<void> {
  for (;;) {
    expect(child.exitCode).toBeNull()
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
  }
}

describeWith(['redis-server'], () => {
  test('the five-minute start does what the page says', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-fleet-page-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    mkdirSync(join(folder, 'bin'))
    symlinkSync(CLI, join(folder, 'bin/wasm-serve'))
    copyFileSync(pluginFile('hello', 'hello.wasm'), join(folder, 'hello.wasm'))
    const ports = new Map<string, number>()
    for (const port of ['6379', '3001', '3002', '3003', '9001', '9002', '9003'])
      ports.set(port, await freePort())
    const own = (line: string) =>
      line
        .replaceAll(/\b(6379|[39]00[123])\b/g, (port) => String(ports.get(port)))
        .replaceAll('redis://127.0.0.1', `redis://127.0.0.1:${ports.get('6379')}`)
    const env = { ...process.env, PATH: `${join(folder, 'bin')}${delimiter}${process.env.PATH}` }
    const lines = blocksOf('docs/operate/fleet.md')
      .filter(({ language }) => language === 'sh')
      .flatMap(({ code }) => code.split('\n'))
      .filter((line) => line !== '')
    const said: string[] = []
    let token = ''
    for (const line of lines) {
      const [, waited] = /--port (\d+)/.exec(own(line)) ?? []
      if (line.endsWith('&')) {
        const child = spawn('bash', ['-c', `exec ${own(line).slice(0, -1)}`], {
          ...{ cwd: folder, stdio: 'ignore' },
          env: { ...env, WASM_SERVE_ADMIN_TOKEN: token },
        })
        onTestFinished(async () => {
          if (child.exitCode === null) {
            child.kill()
            await once(child, 'exit')
          }
        })
        await listening(Number(waited), child)
      } else {
        const script = `${own(line)}${line.startsWith('export') ? '; echo $WASM_SERVE_ADMIN_TOKEN' : ''}`
        const { stdout } = await promisify(execFile)('bash', ['-c', script], {
          ...{ cwd: folder },
          env: { ...env, WASM_SERVE_ADMIN_TOKEN: token },
        })
        if (line.startsWith('export')) token = stdout.trim()
        said.push(stdout)
      }
    }
    expect(said).toEqual([
      expect.stringMatching(/^[\da-f]{32}\n$/),
      expect.stringContaining('Bob'),
      expect.stringContaining('"plugin"'),
      expect.stringContaining('2'),
    ])
  })
})
