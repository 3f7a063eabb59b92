import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { localhostTls } from '../support/localhost-tls.ts'
import { serveSteps } from '../support/stream-guest.ts'
import { describeWith } from '../support/tools.ts'

const { tls } = localhostTls()
const PROGRAM = fileURLToPath(new URL('../support/go-client/main.go', import.meta.url))

describeWith(['go'], () => {
  test("Go's client gets answers that come before the end of its body, without errors", async () => {
    const steps = [
      ['start', '{"status":413}'],
      ['write', 'early'],
    ] as const
    const { port } = await serveSteps(steps, { url: '/early', bodyLimit: 0 }, { tls, http2: true })
    const urls = Array.from(
      { length: 20 },
      (_, i) => `https://localhost:${port}/${i % 2 === 0 ? 'early' : 'none'}`,
    )
    const { stdout } = await promisify(execFile)('go', ['run', PROGRAM, tls.cert, ...urls])
    const [early, none] = ['HTTP/2.0 413 true', 'HTTP/2.0 404 true']
    expect(stdout.trim().split('\n')).toEqual(urls.map((_, i) => (i % 2 === 0 ? early : none)))
  })
})
