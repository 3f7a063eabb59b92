import { drawn } from './element.ts'

const WIDTH = 120
const HEIGHT = 32

/**
 * A small line of values over time, the newest at the right. It is a picture of numbers that stand beside it, so who does
 * not see it misses none.
 */
export class Chart {
  readonly node: SVGSVGElement
  readonly #line = drawn('path', { class: 'line' })
  readonly #area = drawn('path', { class: 'area' })
  readonly #places: number

  /** @param places - How many values fill the width. */
  constructor(places = 60) {
    this.#places = places
    this.node = drawn(
      'svg',
      {
        class: 'chart',
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        preserveAspectRatio: 'none',
        'aria-hidden': 'true',
      },
      this.#area,
      this.#line,
    )
  }

  /** @param values - The oldest first; where one is undefined, the line is broken. */
  show(values: readonly (number | undefined)[]): void {
    const recent = values.slice(-this.#places)
    const most = Math.max(...recent.map((value) => value ?? 0), Number.MIN_VALUE)
    const offset = this.#places - recent.length
    const lines: string[][] = []
    for (const [index, value] of recent.entries()) {
      if (value === undefined) continue
      const point = `${round(((index + offset) / (this.#places - 1)) * WIDTH)},${round(yOf(value / most))}`
      if (index === 0 || recent[index - 1] === undefined) lines.push([])
      lines.at(-1)?.push(point)
    }
    this.#line.setAttribute('d', lines.map((points) => `M${points.join('L')}`).join(''))
    this.#area.setAttribute('d', lines.map(closed).join(''))
  }
}

/** With room for the line's own width. */
function yOf(share: number): number {
  return HEIGHT - 2 - share * (HEIGHT - 4)
}

function closed(points: readonly string[]): string {
  const x = (point: string | undefined) => point?.split(',')[0] ?? 0
  return `M${x(points[0])},${HEIGHT}L${points.join('L')}L${x(points.at(-1))},${HEIGHT}Z`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
