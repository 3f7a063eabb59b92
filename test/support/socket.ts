import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** One answer, as it came over the socket. */
export interface Answer {
  readonly status: number
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** A client that sends bytes as they are and reads one answer after another. */
export interface Client {
  readonly socket: Socket
  /** Sends, even if the peer does not read. */
  send(bytes: string | Uint8Array): void
  /** Waits for the next answer, interim ones (1xx) included; undefined once the server has closed. */
  answer(): Promise<Answer | undefined>
  /** All answers until the server closes; this side is closed after one that says so. */
  answers(): Promise<Answer[]>
}

/** Connects to a server of the loopback interface; destroyed when the test ends. */
export async function open(port: number): Promise<Client> {
  const socket = connect({ port, host: '127.0.0.1' })
  onTestFinished(() => {
    socket.destroy()
  })
  let received: Buffer = Buffer.alloc(0)
  let isClosed = false
  const news = new EventTarget()
  const tell = () => news.dispatchEvent(new Event('news'))
  socket.on('data', (bytes) => {
    received = Buffer.concat([received, bytes])
    tell()
  })
  socket.on('error', () => socket.destroy()) // a reset is a way of closing
  for (const event of ['end', 'close']) {
    socket.on(event, () => {
      isClosed = true
      tell()
    })
  }
  await once(socket, 'connect')

  const answer = async (): Promise<Answer | undefined> => {
    for (;;) {
      const read = readAnswer(received)
      if (read) {
        received = received.subarray(read.length)
        return read.answer
      }
      if (isClosed && received.length > 0) throw new Error(`closed within an answer: ${received}`)
      if (isClosed) return undefined
      await once(news, 'news')
    }
  }
  const answers = async () => {
    const all: Answer[] = []
    for (let next = await answer(); next; next = await answer()) {
      all.push(next)
      if (next.headers.connection === 'close') socket.end() // as clients do; else the server waits for a second
    }
    return all
  }
  return { socket, send: (bytes) => void socket.write(bytes), answer, answers }
}

/** Sends bytes on a new connection. Returns the whole answer, until the server closes it. */
export async function exchange(port: number, bytes: string | Uint8Array): Promise<Answer[]> {
  const client = await open(port)
  client.send(bytes)
  return client.answers()
}

/** A request in full, with the headers that it needs and these. */
export function post(body: string, headers = '', url = '/'): string {
  return `POST ${url} HTTP/1.1\r\nHost: a\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}

/** The first answer in these bytes, if it is complete; the server always sends its length. */
function readAnswer(bytes: Buffer): { answer: Answer; length: number } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [start = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(start)?.[1])
  if (Number.isNaN(status)) throw new Error(`not an answer: ${start}`)
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const isWithoutBody = status < 200 || status === 204 || status === 304
  if (!isWithoutBody && headers['content-length'] === undefined)
    throw new Error(`an answer without length: ${start}`)
  const body = end + 4
  const length = body + (isWithoutBody ? 0 : Number(headers['content-length']))
  if (bytes.length < length) return undefined
  return { answer: { status, headers, body: Buffer.from(bytes.subarray(body, length)) }, length }
}
