import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { selfSigned } from '../support/certificate.ts'
import { pluginFile } from '../support/pdk.ts'
import { listenAll } from '../support/serve.ts'
import { type Step, serveSteps } from '../support/stream-guest.ts'
import { describeWith } from '../support/tools.ts'

const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-curl-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A file of this name. */
function fileWith(name: string, content: string | Buffer): string {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

const { cert, key } = selfSigned('localhost')
const certPath = fileWith('cert.pem', cert)
const TLS = { tls: { cert: certPath, key: fileWith('key.pem', key) }, http2: true }

const LINES = Array.from({ length: 200_000 }, (_, i) => `${i},${i % 3 === 0 ? 'pear' : 'apple'}\n`)
const CSV = Buffer.from(`id,fruit\n${LINES.join('')}`)
const PEARS = `id,fruit\n${LINES.filter((line) => line.includes('pear')).join('')}`
const csvPath = fileWith('all.csv', CSV)
const DIGEST = `${createHash('sha256').update(CSV).digest('hex')} ${CSV.length}\n`

const VERSIONS = ['--http1.1', '--http2'] as const

/** Runs curl with these arguments, without its own configuration. */
function start(...args: string[]): ChildProcessWithoutNullStreams {
  const child = spawn('curl', ['--disable', '--silent', '--show-error', ...args])
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

async function curl(...args: string[]) {
  const child = start(...args)
  child.stdin.end()
  const ended = once(child, 'close')
  const [body, log] = await Promise.all([buffer(child.stdout), text(child.stderr)])
  return { exitCode: (await ended)[0] as number | null, body: String(body), log }
}

/** The examples of the plug-in in Rust, with TLS. */
async function serveExamples() {
  const plugin = pluginFile('streams-rust', 'streams.wasm')
  const usual = { plugin, method: '*' as const, bodyLimit: 0, outputLimit: 0, workers: 1, spareWorkers: 0 }
  const routes = [
    { ...usual, url: '/hash', function: 'hash' },
    { ...usual, url: '/filter', function: 'filter', config: { keep: 'pear' } },
  ]
  const running = await listenAll(routes, TLS)
  onTestFinished(() => running.drain())
  return { ...running, url: `https://localhost:${running.port}`, trust: ['--cacert', certPath] }
}

async function serveTls(steps: readonly Step[]) {
  const server = await serveSteps(steps, { bodyLimit: 0 }, TLS)
  return { ...server, url: `https://localhost:${server.port}/`, trust: ['--cacert', certPath] }
}

describeWith(['curl'], () => {
  test.each(VERSIONS)('curl uploads a file and standard input (%s)', async (version) => {
    const { url, trust } = await serveExamples()
    expect(await curl(version, ...trust, '-T', csvPath, `${url}/hash`)).toMatchObject({
      exitCode: 0,
      body: DIGEST,
    })
    const piping = start(version, ...trust, '-T', '-', `${url}/hash`)
    piping.stdin.end(CSV)
    expect(await text(piping.stdout)).toBe(DIGEST)
  })

  test.each(VERSIONS)('curl pipes a file through a filter, and shows the trailers (%s)', async (version) => {
    const { url, trust } = await serveExamples()
    const headers = join(folder, 'headers')
    const args = [version, ...trust, '-D', headers, '-T', csvPath, `${url}/filter`]
    const { exitCode, body } = await curl(...args)
    expect([exitCode, body === PEARS]).toEqual([0, true])
    const log = readFileSync(headers, 'utf8')
    expect(log).toMatch(/^trailer: x-lines\r?$/im)
    expect(log).toMatch(new RegExp(`^x-lines: ${PEARS.split('\n').length - 1}\r?$`, 'im'))
  })

  test.each(VERSIONS)('curl reads slowly what it gets (%s)', async (version) => {
    const { url, trust } = await serveExamples()
    const args = [version, ...trust, '--limit-rate', '2M', '-T', csvPath, `${url}/filter`]
    expect((await curl(...args)).body === PEARS).toBe(true)
  })

  test.each(
    VERSIONS,
  )('curl -N shows each event as it comes, and its end is noticed (%s)', async (version) => {
    const { url, trust, codes } = await serveTls([
      ['sse', '{"data":1}'],
      ['sse', '{"data":2}'],
      ['wait', 60_000],
    ])
    const child = start(version, ...trust, '-N', url)
    let all = ''
    while (!all.endsWith('data: 2\n\n')) all += String((await once(child.stdout, 'data'))[0])
    expect(all).toBe('data: 1\n\ndata: 2\n\n') // the guest still waits
    child.kill('SIGINT')
    expect(await codes(3)).toEqual([0, 0, -1])
  })

  test('curl that expects 100 gets it when the guest reads', async () => {
    const { url, trust } = await serveExamples()
    const args = ['--http1.1', ...trust, '-v', '-H', 'expect: 100-continue', '-T', csvPath, `${url}/hash`]
    const { body, log } = await curl(...args)
    expect([body, log.match(/^< HTTP\/1\.1 100 Continue/gm)?.length]).toEqual([DIGEST, 1])
  })

  test('curl that is refused sends no body', async () => {
    const { url, trust } = await serveTls([['start', '{"status":403}']])
    const args = ['--http1.1', ...trust, '-H', 'expect: 100-continue', '--expect100-timeout', '60']
    const { body } = await curl(
      ...args,
      '-w',
      '%{http_code} %{size_upload}',
      '--data-binary',
      `@${csvPath}`,
      url,
    )
    expect(body).toBe('403 0')
  })

  test.each(VERSIONS)('curl -I gets the head, and no body (%s)', async (version) => {
    const { url, trust } = await serveTls([
      ['start', '{"headers":{"x-a":"1"}}'],
      ['write', 'body'],
      ['flush'],
    ])
    const { exitCode, body } = await curl(version, ...trust, '-I', url)
    expect(exitCode).toBe(0)
    expect(body).toMatch(/^x-a: 1\r$/m)
    expect(body).toMatch(/\r\n\r\n$/)
  })

  test('curl reports an answer over HTTP/2 that breaks off', async () => {
    const { url, trust } = await serveTls([['start', ''], ['write', 'half'], ['flush'], ['error', 'no']])
    expect(await curl('--http2', ...trust, url)).toMatchObject({ exitCode: 92, body: 'half' })
  })
})
