import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { type Load, startLoad } from '../support/load.ts'
import { startNginx } from '../support/nginx.ts'
import { describeWith } from '../support/tools.ts'

const CONNECTIONS = 20
/** Idle connections that nginx keeps to each server: while the system closes those of a dead one, some are still used. */
const KEPT = 64

const COLOURS = ['blue', 'green'] as const

/** Two servers behind the nginx of `deploy/nginx`, and clients that compare bodies. */
async function serveBehindNginx() {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-nginx-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const echo = guest('echo')
  const serve = async (colour: string) => {
    const server = start([echo, '--socket', join(folder, `${colour}.sock`), '--drain-ms', '2000'])
    await server.listening()
    return server
  }
  const servers = { blue: await serve('blue'), green: await serve('green') }
  const nginx = await startNginx(folder)
  onTestFinished(() => nginx.stop())
  const load = startLoad({
    url: 'http://plugins.example/',
    socketPath: nginx.socketPath,
    connections: CONNECTIONS,
  })
  onTestFinished(async () => void (await load.stop()))
  await roundOf(load)
  return { servers, serve, load, nginx }
}

/** Each client has begun, and ended, a request after this. */
async function roundOf(load: Load): Promise<void> {
  await load.answered(8 * CONNECTIONS)
}

describeWith(['nginx'], () => {
  test('behind nginx both servers are upgraded, one after the other, at no request', async () => {
    const { servers, serve, load, nginx } = await serveBehindNginx()
    for (const colour of COLOURS) {
      servers[colour].child.kill('SIGTERM')
      expect(await servers[colour].ended).toMatchObject({ code: 0, signal: null })
      await roundOf(load)
      await serve(colour)
      await roundOf(load)
    }
    expect(await load.stop(), nginx.log()).toMatchObject({ wrong: 0, non2xx: 0, resets: 0, refused: 0 })
  })

  test('behind nginx a server that is killed takes with it at most one request for each connection that it had', async () => {
    const { servers, serve, load, nginx } = await serveBehindNginx()
    servers.blue.child.kill('SIGKILL')
    await servers.blue.ended
    await roundOf(load)
    const { non2xx } = load.counts
    expect(non2xx).toBeLessThanOrEqual(CONNECTIONS + KEPT)

    await roundOf(load)
    await serve('blue')
    await roundOf(load)
    expect(await load.stop(), nginx.log()).toMatchObject({ wrong: 0, non2xx, resets: 0, refused: 0 })
  })
})
