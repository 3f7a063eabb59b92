import { startLoad } from '../../test/support/load.ts'
import type { Bench } from '../bench.ts'
import { renderNumber } from '../origin.ts'
import { renderLineChart } from '../plot.ts'
import { type GuestMemory, startGuestServer } from './guest-server.ts'
import { buildGuest, LEAKING_HELLO } from './guests.ts'

/** The memory of the server after a number of requests. */
interface Sample extends GuestMemory {
  readonly requests: number
}

interface LongLife {
  readonly requests: number
  readonly seconds: number
  /** Statuses other than 200, answers to another request, connections that were cut or refused. */
  readonly failed: number
  readonly samples: readonly Sample[]
}

const CONNECTIONS = 20

const SAMPLES = 400

const MIB = 1_048_576

/** A guest that leaks serves a million requests, because its instances are replaced in time. */
export const longLife: Bench = {
  name: 'long-life',
  minutes: 3,
  async run({ calls, quick }, progress) {
    const requests = calls ?? (quick ? 50_000 : 1_000_000)
    const built = await buildGuest(LEAKING_HELLO, progress)
    if ('missing' in built) throw new Error(`cannot build the guest: ${built.missing}`)
    const kept = await serveMany(built.path, requests, [], progress)
    // For comparison without recycling: an instance is replaced only when its memory is full.
    const unkept = await serveMany(built.path, requests / 10, ['--recycle-memory', '1GiB'], progress)
    return {
      args: ` --calls ${requests}`,
      markdown: renderLongLife({ kept, unkept }),
      data: { kept, unkept },
      plots: { 'long-life': plot(kept, requests) },
    }
  },
}

async function serveMany(
  path: string,
  requests: number,
  flags: readonly string[],
  progress: (line: string) => void,
): Promise<LongLife> {
  const server = await startGuestServer(path, 'hello', flags)
  const begun = performance.now()
  const load = startLoad({
    url: server.url,
    connections: CONNECTIONS,
    body: (id) => `${id} `.padEnd(300, '.'),
    isAnswer: (answer, body) => answer === `{"message":"🦀 Hello ${body}"}`,
  })
  try {
    const each = Math.ceil(requests / SAMPLES)
    const samples: Sample[] = [{ requests: 0, ...(await server.memory()) }]
    while (load.counts.answers < requests) {
      await load.answered(each)
      samples.push({ requests: load.counts.answers, ...(await server.memory()) })
      if (samples.length % 40 === 0) progress(`${renderNumber(load.counts.answers, 0)} requests`)
    }
    const { answers, non2xx, wrong, resets, refused } = await load.stop()
    const seconds = (performance.now() - begun) / 1_000
    return { requests: answers, seconds, failed: non2xx + wrong + resets + refused, samples }
  } finally {
    await load.stop()
    server.stop()
  }
}

export interface LongLifeMeasurements {
  readonly kept: LongLife
  readonly unkept: LongLife
}

/** Only counts and sizes, which do not depend on the load of the machine. */
export function renderLongLife({ kept, unkept }: LongLifeMeasurements): string {
  return [
    '| replaced | requests | failed | instances | most MiB |',
    '| --- | ---: | ---: | ---: | ---: |',
    renderRow('default', kept),
    renderRow('`--recycle-memory 1GiB`', unkept),
  ].join('\n')
}

function renderRow(name: string, { requests, failed, samples }: LongLife): string {
  const { mostBytes = Number.NaN, instances = Number.NaN } = samples.at(-1) ?? {}
  const numbers = [requests, failed, instances, mostBytes / MIB].map((value) => renderNumber(value, 0))
  return `| ${[name, ...numbers].join(' | ')} |`
}

/** @param asked - The requested number of requests: a few more are sent before the last sample. */
function plot({ samples, failed }: LongLife, asked: number): string {
  return renderLineChart({
    title: `Memory of a guest that leaks, over ${renderNumber(asked, 0)} requests`,
    note: `Hello in TinyGo, built with -gc=leaking; bodies of 300 bytes; failed requests: ${failed}.`,
    x: { label: 'requests' },
    y: { label: 'MiB' },
    lines: [
      {
        name: 'the instance in use',
        points: samples.map(({ requests, bytes }) => [Math.min(requests, asked), bytes / MIB] as const),
      },
    ],
  })
}
