import { linearScale, logScale, type Scale } from './scale.ts'

/** An axis of a chart. */
interface Axis {
  /** The quantity and its unit. */
  readonly label: string
  /** `linear` begins at 0; the others do not support values of 0 or below. */
  readonly scale?: 'linear' | 'log2' | 'log10'
}

interface Line {
  /** Stands at its end. */
  readonly name: string
  /** In the order in which they are joined. */
  readonly points: readonly (readonly [x: number, y: number])[]
}

interface LineChart {
  readonly title: string
  /** The caption: the origin of the numbers. */
  readonly note?: string
  readonly x: Axis
  readonly y: Axis
  readonly lines: readonly Line[]
}

interface Bar {
  /** Stands before it. */
  readonly name: string
  readonly value: number
  /** Stands behind it, instead of the value. */
  readonly text?: string
  /** The bar that a reader is to compare with the others; false by default. */
  readonly isMarked?: boolean
}

interface BarChart {
  readonly title: string
  readonly note?: string
  readonly axis: Axis
  /** Bars from top to bottom. */
  readonly bars: readonly Bar[]
}

/** Renders lines over two axes as an SVG picture, their names at their ends. */
export function renderLineChart({ title, note, x, y, lines }: LineChart): string {
  const room = { left: 64, top: 56, width: 560, height: 340 }
  const points = lines.flatMap((line) => line.points)
  const xScale = openScale(
    x,
    points.map(([value]) => value),
  )
  const yScale = openScale(
    y,
    points.map(([, value]) => value),
  )
  const xAt = (value: number) => room.left + xScale.at(value) * room.width
  const yAt = (value: number) => room.top + (1 - yScale.at(value)) * room.height
  const bottom = room.top + room.height
  const right = room.left + room.width

  const ends = lines.map((line) => line.points.at(-1) ?? ([0, 0] as const))
  const labels = spread(
    ends.map(([, value]) => yAt(value)),
    LINE_HEIGHT,
    room.top,
  )
  const height = Math.max(bottom, ...labels) + 52 + (note ? 20 : 0)
  return picture({ title, note, width: right + 24 + widthOf(lines), height }, [
    ...yScale.ticks.map((value) => horizontal(room.left, right, yAt(value))),
    ...yScale.ticks.map((value) => text(room.left - 8, yAt(value) + 4, renderTick(value), 'end')),
    ...xScale.ticks.map((value) => vertical(xAt(value), bottom, bottom + 5)),
    ...xScale.ticks.map((value) => text(xAt(value), bottom + 20, renderTick(value), 'middle')),
    text(room.left - 40, room.top - 14, y.label, 'start', MUTED),
    text(room.left + room.width / 2, bottom + 40, x.label, 'middle', MUTED),
    `<path d="M${room.left} ${bottom}H${right}" stroke="${INK}"/>`,
    ...lines.flatMap((line, index) => {
      const colour = colourOf(index)
      const path = line.points.map(([a, b]) => `${round(xAt(a))} ${round(yAt(b))}`).join('L')
      const [endX, endY] = ends[index] ?? [0, 0]
      const labelY = labels[index] ?? 0
      return [
        `<path d="M${path}" fill="none" stroke="${colour}" stroke-width="2" stroke-linejoin="round"${dashOf(index)}/>`,
        `<path d="M${round(xAt(endX) + 3)} ${round(yAt(endY))}L${right + 14} ${round(labelY)}" stroke="${colour}" stroke-width="0.75"/>`,
        text(right + 18, labelY + 4, line.name, 'start', colour),
      ]
    }),
  ])
}

/** Renders horizontal bars, one below the other, as an SVG picture. A logarithmic axis has dots instead: such bars would have no beginning. */
export function renderBarChart({ title, note, axis, bars }: BarChart): string {
  const room = { left: 24 + widthOf(bars), top: 44, width: 460, height: bars.length * BAR_STEP }
  const scale = openScale(
    axis,
    bars.map(({ value }) => value),
  )
  const isLinear = (axis.scale ?? 'linear') === 'linear'
  const xAt = (value: number) => room.left + scale.at(value) * room.width
  const bottom = room.top + room.height
  const height = bottom + 52 + (note ? 20 : 0)
  return picture({ title, note, width: room.left + room.width + 96, height }, [
    ...scale.ticks.map((value) => vertical(xAt(value), room.top, bottom)),
    ...scale.ticks.map((value) => text(xAt(value), bottom + 18, renderTick(value), 'middle')),
    text(room.left + room.width / 2, bottom + 38, axis.label, 'middle', MUTED),
    ...bars.flatMap(({ name, value, text: said, isMarked }, index) => {
      const middle = room.top + (index + 0.5) * BAR_STEP
      const end = round(xAt(value))
      const colour = isMarked ? MARKED : PLAIN
      return [
        text(room.left - 8, middle + 4, name, 'end', INK, isMarked),
        isLinear
          ? `<rect x="${round(room.left)}" y="${round(middle - 8)}" width="${round(end - room.left)}" height="16" fill="${colour}"/>`
          : `<circle cx="${end}" cy="${round(middle)}" r="5" fill="${colour}"/>`,
        text(end + 9, middle + 4, said ?? renderTick(value), 'start', INK, isMarked),
      ]
    }),
    `<path d="M${round(room.left)} ${room.top}V${bottom}" stroke="${INK}"/>`,
  ])
}

const FONT_SIZE = 12
const LINE_HEIGHT = 15
const BAR_STEP = 26
const PAPER = '#ffffff'
const INK = '#24292f'
const MUTED = '#57606a'
const GRID = '#e4e7eb'
const PLAIN = '#9aa7b5'
const MARKED = '#0072b2'

/** A palette for readers with colour blindness (Okabe and Ito), without its yellow, which is too light here. */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#000000', '#e69f00', '#56b4e9']

function colourOf(index: number): string {
  return COLOURS[index % COLOURS.length] ?? INK
}

/** The second time round the colours, lines are dashed. */
function dashOf(index: number): string {
  return index < COLOURS.length ? '' : ' stroke-dasharray="6 3"'
}

function openScale({ scale = 'linear' }: Axis, values: readonly number[]): Scale {
  if (values.length === 0) throw new Error('a chart of nothing')
  return scale === 'linear' ? linearScale(values) : logScale(values, scale === 'log2' ? 2 : 10)
}

/** Pushes places apart until each has its distance from the next; they keep their order. */
function spread(places: readonly number[], distance: number, least: number): number[] {
  const moved = [...places]
  const order = [...places.keys()].sort((a, b) => (places[a] ?? 0) - (places[b] ?? 0))
  const groups: { from: number; members: number[] }[] = []
  for (const index of order) {
    groups.push({ from: Math.max(least, places[index] ?? 0), members: [index] })
    let [before, last] = groups.slice(-2)
    while (before && last && before !== last && before.from + before.members.length * distance > last.from) {
      const members = [...before.members, ...last.members]
      const middle = members.reduce((sum, each) => sum + (places[each] ?? 0), 0) / members.length
      groups.splice(-2, 2, {
        from: Math.max(least, middle - ((members.length - 1) / 2) * distance),
        members,
      })
      ;[before, last] = groups.length > 1 ? groups.slice(-2) : []
    }
  }
  for (const { from, members } of groups) {
    for (const [place, index] of members.entries()) moved[index] = from + place * distance
  }
  return moved
}

interface Frame {
  readonly title: string
  readonly note: string | undefined
  readonly width: number
  readonly height: number
}

function picture({ title, note, width, height }: Frame, parts: readonly string[]): string {
  const [w, h] = [Math.ceil(width), Math.ceil(height)]
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" role="img" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="${FONT_SIZE}">`,
    `<title>${escapeXml(title)}</title>`,
    `<rect width="${w}" height="${h}" fill="${PAPER}"/>`,
    `<text x="24" y="20" fill="${INK}" font-size="14" font-weight="600">${escapeXml(title)}</text>`,
    ...parts,
    ...(note ? [`<text x="24" y="${h - 10}" fill="${MUTED}" font-size="10">${escapeXml(note)}</text>`] : []),
    '</svg>',
  ].join('\n')}\n`
}

function text(
  x: number,
  y: number,
  content: string,
  anchor: 'start' | 'middle' | 'end',
  colour = INK,
  isBold = false,
): string {
  const weight = isBold ? ' font-weight="600"' : ''
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}" fill="${colour}"${weight}>${escapeXml(content)}</text>`
}

function horizontal(from: number, to: number, y: number): string {
  return `<path d="M${round(from)} ${round(y)}H${round(to)}" stroke="${GRID}"/>`
}

function vertical(x: number, from: number, to: number): string {
  return `<path d="M${round(x)} ${round(from)}V${round(to)}" stroke="${GRID}"/>`
}

/** The room that names need; there is nothing here to measure letters with. */
function widthOf(named: readonly { readonly name: string }[]): number {
  return Math.max(...named.map(({ name }) => name.length)) * FONT_SIZE * 0.66
}

/** As in `0.25`, `1,024` or `5M`. */
function renderTick(value: number): string {
  if (value >= 1_000_000) return `${renderTick(value / 1_000_000)}M`
  return value.toLocaleString('en-US', { maximumSignificantDigits: value < 1_000 ? 3 : 6 })
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function escapeXml(content: string): string {
  return content.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`)
}
