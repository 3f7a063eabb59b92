import { once } from 'node:events'
import { type ClientHttp2Session, connect } from 'node:http2'
import { latencies } from '../statistics.ts'
import type { Load, LoadResult, LoadTool } from './load.ts'

/** Over HTTP/2, in this process, with {@link STREAMS} requests at a time on each connection. It compares every body. */
export const http2: LoadTool = { name: 'http2', cores: 1, fire }

const STREAMS = 10

interface Http2Request {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Http2Answer {
  readonly status: number
  readonly body: string
}

/** Sends one request on a new connection. */
export async function postHttp2(
  url: string,
  body: string,
  { headers }: Pick<Http2Request, 'headers'>,
): Promise<Http2Answer> {
  const session = await open(url)
  try {
    return await ask(session, { path: new URL(url).pathname, headers, body })
  } finally {
    session.destroy()
  }
}

async function fire({ url, paths, headers, body, ...load }: Load): Promise<LoadResult> {
  const sessions = await Promise.all(
    Array.from({ length: Math.ceil(load.connections / STREAMS) }, () => open(url)),
  )
  const counts = { sent: 0, wrong: 0, refused: 0, lost: 0 }
  const times: number[] = []
  const cpuBefore = process.cpuUsage()
  const begun = performance.now()
  const isOver = () =>
    performance.now() - begun >= load.seconds * 1_000 ||
    (load.isStrict && counts.wrong + counts.refused + counts.lost > 0)
  const runClient = async (session: ClientHttp2Session) => {
    while (!isOver()) {
      const path = new URL(paths[counts.sent++ % paths.length] ?? '/', url).pathname
      const at = performance.now()
      try {
        const answer = await ask(session, { path, headers, body })
        times.push(performance.now() - at)
        if (answer.status !== 200) counts.refused++
        else if (!load.isRight(answer.body)) counts.wrong++
      } catch {
        counts.lost++
        return
      }
    }
  }
  await Promise.all(
    Array.from({ length: load.connections }, (_, i) => sessions[i % sessions.length])
      .filter((session) => session !== undefined)
      .map(runClient),
  )
  const seconds = (performance.now() - begun) / 1_000
  const { user, system } = process.cpuUsage(cpuBefore)
  for (const session of sessions) session.destroy()
  return {
    seconds,
    ...counts,
    answered: times.length,
    ...latencies(times),
    busyCores: (user + system) / 1_000_000 / seconds,
  }
}

async function open(url: string): Promise<ClientHttp2Session> {
  const session = connect(url, { rejectUnauthorized: false }) // the certificate of the tests
  session.on('error', () => undefined) // its streams fail too
  await once(session, 'connect')
  return session
}

function ask(session: ClientHttp2Session, { path, headers, body }: Http2Request): Promise<Http2Answer> {
  return new Promise((resolve, reject) => {
    const stream = session.request({ ...headers, ':method': 'POST', ':path': path })
    let status = 0
    let answer = ''
    stream.setEncoding('utf8')
    stream.once('response', (given) => {
      status = given[':status'] ?? 0
    })
    stream.on('data', (text: string) => {
      answer += text
    })
    stream.once('end', () => resolve({ status, body: answer }))
    stream.once('error', reject)
    stream.once('close', () => reject(new Error('the stream was closed')))
    stream.end(body)
  })
}
