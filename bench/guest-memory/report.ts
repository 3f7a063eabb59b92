import { renderNumber } from '../origin.ts'
import { renderLineChart } from '../plot.ts'
import type { GuestMeasurement } from './guest-memory.ts'
import type { WorkloadMeasurement } from './measure.ts'
import { WORKLOADS, type Workload } from './workloads.ts'

const MIB = 1_048_576

/** The columns of each workload. */
const SHOWN = [1, 100, 10_000]

type GuestFigures = Extract<GuestMeasurement, { bytes: number }>

/**
 * A table of each workload, the present benefit of nottinygc, and the omitted guests.
 *
 * @param withTimes - False where other programs used the machine: sizes and counts do not depend on that, times do.
 */
export function renderGuests(guests: readonly GuestMeasurement[], withTimes: boolean): string {
  const measured = guests.filter((guest) => 'bytes' in guest)
  const missing = guests.filter((guest) => 'missing' in guest)
  return [
    ...WORKLOADS.map((workload) => renderWorkload(workload, measured, withTimes)),
    withTimes ? renderNottinygc(measured) : '',
    missing
      .map(({ language, manager, missing }) => `- left out: ${language}, ${manager}: ${missing}`)
      .join('\n'),
  ]
    .filter(Boolean)
    .join('\n\n')
}

function renderWorkload(
  { name, title }: Workload,
  guests: readonly GuestFigures[],
  withTimes: boolean,
): string {
  const calls = SHOWN.filter((each) =>
    ofWorkload(guests[0], name)?.memory.some(({ calls }) => calls === each),
  )
  const rows = guests.map((guest) => {
    const measured = ofWorkload(guest, name)
    const first = ofWorkload(firstOf(guests, guest), name)
    const memory = calls.map((each) =>
      renderMib(measured?.memory.find(({ calls }) => calls === each)?.mostBytes),
    )
    const [ms, ofFirst] = [measured?.callMs ?? Number.NaN, first?.callMs ?? Number.NaN]
    const times = withTimes ? [renderNumber(ms, 3), renderNumber(ms / ofFirst, 2)] : []
    const cells = [
      guest.language,
      guest.manager,
      ...times,
      ...memory,
      measured?.instances,
      renderNumber(guest.bytes, 0),
    ]
    return `| ${cells.join(' | ')} |`
  })
  return [
    `\`${name}\`: ${title}`,
    '',
    `| language | memory by |${withTimes ? ' ms | of its first |' : ''} ${calls.map((each) => `MiB after ${renderNumber(each, 0)}`).join(' | ')} | instances | bytes |`,
    `| --- | --- |${withTimes ? ' ---: | ---: |' : ''} ${calls.map(() => '---:').join(' | ')} | ---: | ---: |`,
    ...rows,
  ].join('\n')
}

/** Speed relative to TinyGo's own collectors, and the exceptions. */
function renderNottinygc(guests: readonly GuestFigures[]): string {
  const nottinygc = guests.find(({ manager }) => manager.startsWith('nottinygc'))
  if (!nottinygc) return ''
  const others = guests.filter((guest) => guest.language === 'TinyGo' && guest !== nottinygc)
  const compared = others.map(({ manager, workloads }) => ({
    manager,
    gains: workloads.map(({ workload, callMs }) => ({
      workload,
      ratio: callMs / (ofWorkload(nottinygc, workload)?.callMs ?? Number.NaN),
    })),
  }))
  const lost = compared.flatMap(({ manager, gains }) => {
    const names = gains.filter(({ ratio }) => ratio < CLEARLY).map(({ workload }) => `\`${workload}\``)
    return names.length === 0 ? [] : [`${names.join(' and ')} to \`-gc=${manager}\``]
  })
  return [
    ...compared.map(({ manager, gains }) => {
      const ratios = gains.map(({ workload, ratio }) => `\`${workload}\` ${renderNumber(ratio, 1)}`)
      return `- nottinygc to \`-gc=${manager}\`, times as fast: ${ratios.join(', ')}`
    }),
    `- Where it is not clearly faster (${CLEARLY} times): ${lost.join('; ') || 'nowhere'}.`,
  ].join('\n')
}

/** Two equal guests differ by this much on a machine that other programs use. */
const CLEARLY = 1.2

/** Lines of memory over calls, a picture for each workload. */
export function plotWorkloads(guests: readonly GuestMeasurement[]): Record<string, string> {
  const measured = guests.filter((guest) => 'bytes' in guest)
  if (measured.length === 0) return {}
  return Object.fromEntries(
    WORKLOADS.map(({ name, title }) => [
      `guest-memory-${name}`,
      renderLineChart({
        title: `Memory of guests over calls: ${title}`,
        note: 'Most linear memory of an instance so far; wasm-serve replaces one that has more than 96 MiB.',
        x: { label: 'calls', scale: 'log10' },
        y: { label: 'MiB', scale: 'log2' },
        lines: measured.map((guest) => ({
          name: `${guest.language}, ${guest.manager}`,
          points: (ofWorkload(guest, name)?.memory ?? []).map(
            ({ calls, mostBytes }) => [calls, mostBytes / MIB] as const,
          ),
        })),
      }),
    ]),
  )
}

function ofWorkload(guest: GuestFigures | undefined, name: string): WorkloadMeasurement | undefined {
  return guest?.workloads.find(({ workload }) => workload === name)
}

function firstOf(guests: readonly GuestFigures[], { language }: GuestFigures): GuestFigures | undefined {
  return guests.find((guest) => guest.language === language)
}

function renderMib(bytes: number | undefined): string {
  return bytes === undefined ? '' : renderNumber(bytes / MIB, 2)
}
