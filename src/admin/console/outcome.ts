import { Refused } from './admin-api.ts'
import { element } from './element.ts'

/** Where it is told what came of what somebody asked for; screen readers say it. */
export class Outcome {
  readonly node = element('div', { class: 'outcome', role: 'status', 'aria-live': 'polite' })

  clear(): void {
    this.node.replaceChildren()
  }

  good(text: string): void {
    this.node.replaceChildren(element('p', { class: 'success' }, text))
  }

  /** @throws what is no refusal: a bug. */
  bad(error: unknown): void {
    if (!(error instanceof Refused)) throw error
    this.node.replaceChildren(
      element(
        'div',
        { class: 'refusal' },
        element('strong', {}, 'Refused: all is as it was. '),
        error.message,
        error.code !== '' && element('code', {}, error.code),
      ),
    )
  }
}
