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

  /**
   * @param meaning - What it means for what is served; default: nothing was changed.
   * @throws what is no refusal: a bug.
   */
  bad(error: unknown, meaning = 'Refused: all is as it was.'): void {
    if (!(error instanceof Refused)) throw error
    const known = error.status === 0 ? 'Whether it was done is not known.' : meaning
    this.node.replaceChildren(
      element(
        'div',
        { class: 'refusal' },
        element('strong', {}, `${known} `),
        error.message,
        error.code !== '' && element('code', {}, error.code),
      ),
    )
  }
}
