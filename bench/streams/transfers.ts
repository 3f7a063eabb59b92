import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { assembleGuestFile } from '../guest.ts'
import { COMMAND, type Scenario } from '../scenario.ts'
import { type ServerProcess, startServer } from '../server-process.ts'

/** Bodies in one direction or in both, for a server. */
export interface Transfer {
  readonly name: string
  readonly server: string
  readonly scenario: Pick<Scenario, 'name' | 'command' | 'path'>
  /** What it sends and gets for a number of MiB. */
  exchange(mib: number): Exchange
}

interface Exchange {
  readonly body: Content
  readonly answer: Content
}

/** A block that is repeated. */
interface Content {
  readonly block: Buffer
  readonly bytes: number
}

export const FASTIFY = 'Fastify'
export const OURS = 'wasm-serve'

const HASH = 'upload, SHA-256'
const COUNT = 'upload, counted'
const DOWNLOAD = 'download'
export const BOTH = 'both ways, filter'

const MIB = 1_048_576

const PIECE_BYTES = 65_536

/** 1,024 lines of a CSV file, all of which the filter passes on. */
const LINES = Buffer.from(
  '0000042,pear,'
    .padEnd(63, 'x')
    .concat('\n')
    .repeat(PIECE_BYTES / 64),
)

const ZEROS = Buffer.alloc(PIECE_BYTES)

const STREAMS_RUST = 'plugins/streams-rust/streams.wasm'

/** All transfers, each for Fastify and then for the command. */
export async function openTransfers(): Promise<Transfer[]> {
  const guest = await assembleGuestFile('streams')
  const pairs = [
    { name: HASH, path: 'hash', plugin: STREAMS_RUST, exchange: upload(digestOf) },
    { name: COUNT, path: 'count', plugin: guest, exchange: upload((mib) => String(mib * MIB)) },
    { name: DOWNLOAD, path: 'download', plugin: guest, exchange: download },
    { name: BOTH, path: 'filter', plugin: STREAMS_RUST, exchange: both },
  ]
  return pairs.flatMap(({ name, path, plugin, exchange }) => {
    const limits = ['--body-limit', '0', '--output-limit', '0', '--workers', '1', '--spare-workers', '0']
    const flags = [...limits, '--timeout', '600000', '--function', path, '--config', 'keep=pear']
    return [
      {
        ...{ name, server: FASTIFY, exchange },
        scenario: {
          name: FASTIFY,
          command: [process.execPath, 'bench/servers/streams.js'],
          path: `/${path}`,
        },
      },
      {
        ...{ name, server: OURS, exchange },
        scenario: { name: OURS, command: [process.execPath, ...COMMAND, ...flags, plugin], path: '/' },
      },
    ] satisfies Transfer[]
  })
}

function upload(answer: (mib: number) => string) {
  return (mib: number): Exchange => {
    const block = Buffer.from(answer(mib))
    return { body: { block: LINES, bytes: mib * MIB }, answer: { block, bytes: block.length } }
  }
}

function digestOf(mib: number): string {
  let digest = digests.get(mib)
  if (digest === undefined) {
    const hash = createHash('sha256')
    for (let i = 0; i < (mib * MIB) / PIECE_BYTES; i++) hash.update(LINES)
    digest = hash.digest('hex')
    digests.set(mib, digest)
  }
  return `${digest} ${mib * MIB}\n`
}

const digests = new Map<number, string>()

/** The size is that of the body. */
function download(mib: number): Exchange {
  return { body: { block: ZEROS, bytes: mib }, answer: { block: ZEROS, bytes: mib * MIB } }
}

function both(mib: number): Exchange {
  const content = { block: LINES, bytes: mib * MIB }
  return { body: content, answer: content }
}

/** The cost of a transfer. */
export interface TransferRun {
  readonly mibPerSecond: number
  /** CPU time of the server, in microseconds. */
  readonly cpuMicrosPerMib: number
}

/** MiB that are transferred before a run counts: V8 optimizes meanwhile. */
const WARM_UP_MIB = 32

/** Measures a transfer on a new server. @throws if a byte of the answer is wrong. */
export async function measureTransfer({ scenario, exchange }: Transfer, mib: number): Promise<TransferRun> {
  const wanted = exchange(mib)
  const server = await startServer(scenario)
  try {
    await send(server.url, exchange(WARM_UP_MIB))
    await server.idle()
    const [cpuBefore, begun] = [server.cpuMicros(), performance.now()]
    await send(server.url, wanted)
    const seconds = (performance.now() - begun) / 1_000
    await server.idle()
    return { mibPerSecond: mib / seconds, cpuMicrosPerMib: (server.cpuMicros() - cpuBefore) / mib }
  } finally {
    server.stop()
  }
}

/** Resident memory of a server, idle and during a transfer. */
export interface Growth {
  readonly idleBytes: number
  readonly mostBytes: number
}

/** Measures the memory of a server that has served before. */
export async function measureGrowth({ scenario, exchange }: Transfer, mib: number): Promise<Growth> {
  const server = await startServer(scenario)
  try {
    await send(server.url, exchange(WARM_UP_MIB))
    await server.idle()
    return await watchMemory(server, () => send(server.url, exchange(mib)))
  } finally {
    server.stop()
  }
}

/** The memory of a server now, and the most while something runs. */
export async function watchMemory(server: ServerProcess, run: () => Promise<void>): Promise<Growth> {
  const idleBytes = server.memoryBytes()
  let mostBytes = idleBytes
  const watching = setInterval(() => {
    mostBytes = Math.max(mostBytes, server.memoryBytes())
  }, WATCH_MS)
  try {
    await run()
  } finally {
    clearInterval(watching)
  }
  return { idleBytes, mostBytes: Math.max(mostBytes, server.memoryBytes()) }
}

const WATCH_MS = 10

/** Sends a body and reads the answer at the same time. @throws if a byte is wrong or missing. */
async function send(url: string, { body, answer }: Exchange): Promise<void> {
  const headers = { 'content-type': 'text/csv' }
  const sent = request(url, { method: 'POST', agent: new Agent(), headers })
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>
  const sending = sendAll(sent, body)
  const [response] = await answered
  let at = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    check(piece, answer.block, at)
    at += piece.length
  }
  await sending
  if (response.statusCode !== 200 || at !== answer.bytes)
    throw new Error(`answered with ${response.statusCode} and ${at} bytes of ${answer.bytes}`)
}

async function sendAll(sent: ClientRequest, { block, bytes }: Content): Promise<void> {
  for (let left = bytes; left > 0; left -= block.length)
    if (!sent.write(left < block.length ? block.subarray(0, left) : block)) await once(sent, 'drain')
  sent.end()
}

/** Compares with a block that is repeated. */
function check(piece: Buffer, block: Buffer, at: number): void {
  for (let done = 0; done < piece.length; ) {
    const from = (at + done) % block.length
    const length = Math.min(block.length - from, piece.length - done)
    if (piece.compare(block, from, from + length, done, done + length) !== 0)
      throw new Error(`wrong bytes after ${at + done}: ${piece.subarray(done, done + 80)}`)
    done += length
  }
}
