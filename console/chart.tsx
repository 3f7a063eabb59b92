import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { formatBytes, formatMs, formatRate } from './format.ts'
import type { LiveHistory, MeterFilter, RateWindow } from './live-server.ts'

/** The number of values across a chart: one per second, for a minute. */
const PLACES = 60

const BACKGROUND_OPACITY = 0.13

/**
 * Draws values over time as a line, the newest at the right. The style sheet sets size and color. Hidden from screen
 * readers, because the figures are also shown as text.
 *
 * @param values - The oldest first. undefined leaves a gap in the line.
 */
export function Chart({ values }: { readonly values: readonly (number | undefined)[] }) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)

  useEffect(() => {
    if (!place.current) return
    const node = place.current
    const made = new uPlot(optionsFor(node), [[], []], node)
    plot.current = made
    const sizes = new ResizeObserver(() => made.setSize(sizeOfElement(node)))
    sizes.observe(node)
    const redraw = () => made.redraw()
    const colorScheme = matchMedia('(prefers-color-scheme: dark)')
    colorScheme.addEventListener('change', redraw)
    return () => {
      colorScheme.removeEventListener('change', redraw)
      sizes.disconnect()
      made.destroy()
    }
  }, [])

  useEffect(() => {
    const recent = values.slice(-PLACES)
    const first = PLACES - recent.length
    plot.current?.setData([recent.map((_, index) => first + index), recent.map((value) => value ?? null)])
  }, [values])

  return <div class="chart" aria-hidden="true" ref={place} />
}

function optionsFor(node: HTMLElement): uPlot.Options {
  const colour = () => getComputedStyle(node).color
  return {
    ...sizeOfElement(node),
    pxAlign: false,
    padding: [0, 0, 0, 0],
    cursor: { show: false },
    select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    legend: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: {
      x: { time: false, range: [0, PLACES - 1] },
      // From 0 to the highest value, with a margin for the width of the line.
      y: { range: (_plot, _least, most) => [-(most || 1) / 16, ((most || 1) * 17) / 16] },
    },
    series: [
      {},
      {
        width: 1.5,
        points: { show: false },
        stroke: colour,
        fill: () => colour().replace(/^rgb\((.*)\)$/, `rgba($1, ${BACKGROUND_OPACITY})`),
        fillTo: (plot) => plot.scales.y?.min ?? 0,
      },
    ],
  }
}

function sizeOfElement({ clientWidth, clientHeight }: HTMLElement) {
  return { width: clientWidth, height: clientHeight }
}

interface FiguresProps {
  /** The subject of the figures. */
  readonly label: string
  readonly history: LiveHistory
  readonly filter?: MeterFilter
  /** Which memory is shown. */
  readonly memory: 'bytes' | 'processBytes'
  /** Further notes, beside the rate, the failures and the memory. */
  readonly notes: (now: RateWindow) => readonly [rate: string, failures: string, memory: string]
}

/** Four labeled figures with charts of their last minute. */
export function Figures({ label, history, filter, memory, notes }: FiguresProps) {
  const now = history.now(filter)
  const points = history.points(filter)
  const [rate, failures, ofMemory] = notes(now)
  const figures = [
    { name: 'Requests/s', of: 'rate', value: formatRate(now.rate), note: rate },
    { name: 'Guest time, p99', of: 'p99', value: formatMs(now.p99), note: `p50 ${formatMs(now.p50)}` },
    { name: 'Failed/s', of: 'failureRate', value: formatRate(now.failureRate), note: failures },
    { name: 'Memory', of: memory, value: formatBytes(now[memory]), note: ofMemory },
  ] as const
  return (
    <section class="figures" aria-label={label}>
      {figures.map(({ name, of, value, note }) => (
        <div key={name} class="card figure" data-value={of}>
          <span class="name">{name}</span>
          <span class="value">{value}</span>
          <span class="note">{note}</span>
          {/* No memory at all is not known yet. */}
          <Chart values={points.map((point) => (of === memory && point[of] === 0 ? undefined : point[of]))} />
        </div>
      ))}
    </section>
  )
}
