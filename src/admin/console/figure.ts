import { Chart } from './chart.ts'
import { element, setText } from './element.ts'

/** A number with its name, what belongs to it, and its last minute as a small chart. */
export class Figure {
  readonly node: HTMLElement
  readonly #value = element('span', { class: 'value' }, '–')
  readonly #note = element('span', { class: 'note' })
  readonly #chart = new Chart()

  constructor(name: string, look = '') {
    this.node = element(
      'div',
      { class: `card figure ${look}` },
      element('span', { class: 'name' }, name),
      this.#value,
      this.#note,
      this.#chart.node,
    )
  }

  show(value: string, note: string, values: readonly (number | undefined)[]): void {
    setText(this.#value, value)
    setText(this.#note, note)
    this.#chart.show(values)
  }
}
