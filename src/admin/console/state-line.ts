import type { Refused } from './admin-api.ts'
import { element, setText } from './element.ts'
import type { Server } from './server.ts'

const STATES: Readonly<Record<string, string>> = {
  starting: 'Starting',
  serving: 'Serving',
  draining: 'Ending',
}

/** How the server is, at the top of each view; and a button that lets the numbers stand still. */
export class StateLine {
  readonly #node: HTMLElement
  readonly #state = element('span', { role: 'status' })
  readonly #pause = element('button', { class: 'quiet', type: 'button', 'aria-pressed': 'false' }, 'Pause')

  constructor(node: HTMLElement, onPause: (isPaused: boolean) => void) {
    this.#node = node
    this.#pause.addEventListener('click', () => {
      const isPaused = this.#pause.getAttribute('aria-pressed') === 'false'
      this.#pause.setAttribute('aria-pressed', String(isPaused))
      onPause(isPaused)
    })
    node.replaceChildren(this.#state, this.#pause)
  }

  live({ history }: Server): void {
    this.#node.hidden = false
    const { state = '' } = history.last ?? {}
    this.#set(STATES[state] ?? state, state === 'serving' ? 'good' : 'warn')
  }

  trouble(problem: Refused | undefined): void {
    if (problem) this.#set('No answer', 'bad')
  }

  #set(text: string, look: string): void {
    setText(this.#state, text)
    this.#state.className = `badge ${look}`
  }
}
