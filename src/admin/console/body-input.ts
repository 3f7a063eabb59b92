import { fromBase64 } from './bytes.ts'
import type { CurlBody } from './curl.ts'
import { element } from './element.ts'
import { field } from './plugins-view.ts'

const KINDS = ['text', 'json', 'base64', 'file', 'none'] as const

type Kind = (typeof KINDS)[number]

const NAMES: Readonly<Record<Kind, string>> = {
  text: 'Text',
  json: 'JSON',
  base64: 'Base64',
  file: 'File',
  none: 'None',
}

const TYPES: Readonly<Record<Kind, string | undefined>> = {
  text: 'text/plain; charset=utf-8',
  json: 'application/json',
  base64: 'application/octet-stream',
  file: 'application/octet-stream',
  none: undefined,
}

/** What the body of a request is made of. */
export class BodyInput {
  readonly node: HTMLElement
  readonly #kinds: readonly HTMLInputElement[]
  readonly #text = element('textarea', {
    id: 'body',
    rows: 6,
    spellcheck: 'false',
    'aria-describedby': 'body-problem',
    oninput: () => this.#changed(),
  })
  readonly #file = element('input', { id: 'body-file', type: 'file', onchange: () => this.#changed() })
  readonly #problem = element('p', { id: 'body-problem', class: 'problem', role: 'status' })
  readonly #parts: { readonly text: HTMLElement; readonly file: HTMLElement }
  readonly #onChange: () => void

  constructor(onChange: () => void) {
    this.#onChange = onChange
    this.#kinds = KINDS.map((kind) =>
      element('input', {
        type: 'radio',
        name: 'kind',
        value: kind,
        id: `kind-${kind}`,
        checked: kind === 'text',
        onchange: () => this.#changed(),
      }),
    )
    this.#parts = { text: field('body', 'Body', this.#text), file: field('body-file', 'Body', this.#file) }
    this.node = element(
      'fieldset',
      {},
      element('legend', {}, 'Body'),
      element(
        'div',
        { class: 'choices' },
        ...this.#kinds.map((input) =>
          element('label', { for: input.id }, input, ` ${NAMES[input.value as Kind]}`),
        ),
      ),
      this.#parts.text,
      this.#parts.file,
      this.#problem,
    )
    this.#parts.file.hidden = true
  }

  /** For requests that have none. */
  chooseNone(): void {
    this.#choose('none')
  }

  /** What is sent as `content-type`, unless somebody says something else. */
  get type(): string | undefined {
    const [file] = this.#file.files ?? []
    return (this.#kind === 'file' && file?.type) || TYPES[this.#kind]
  }

  /** @returns undefined for none. @throws an Error that says what is wrong. */
  async read(): Promise<Uint8Array | undefined> {
    const problem = this.#findProblem()
    this.#tell(problem)
    if (problem !== undefined) throw new Error(problem)
    const [file] = this.#file.files ?? []
    if (this.#kind === 'none') return undefined
    if (this.#kind === 'file') return file && new Uint8Array(await file.arrayBuffer())
    return this.#kind === 'base64' ? fromBase64(this.#text.value) : new TextEncoder().encode(this.#text.value)
  }

  get curl(): CurlBody {
    const { value: text } = this.#text
    if (this.#kind === 'none') return { kind: 'none' }
    if (this.#kind === 'file') return { kind: 'file', name: this.#file.files?.[0]?.name ?? 'FILE' }
    if (this.#kind === 'base64') return { kind: 'base64', text: text.replaceAll(/\s/g, '') }
    return { kind: 'text', text }
  }

  get #kind(): Kind {
    return (this.#kinds.find(({ checked }) => checked)?.value ?? 'text') as Kind
  }

  #choose(kind: Kind): void {
    for (const input of this.#kinds) input.checked = input.value === kind
    this.#changed()
  }

  #changed(): void {
    this.#parts.text.hidden = this.#kind === 'file' || this.#kind === 'none'
    this.#parts.file.hidden = this.#kind !== 'file'
    this.#tell(undefined)
    this.#onChange()
  }

  #findProblem(): string | undefined {
    const { value } = this.#text
    if (this.#kind === 'file' && !this.#file.files?.[0]) return 'Choose a file first.'
    if (this.#kind === 'base64' && !fromBase64(value)) return 'This is no base64.'
    if (this.#kind !== 'json') return undefined
    try {
      JSON.parse(value)
      return undefined
    } catch (error) {
      return `This is no JSON: ${(error as Error).message}`
    }
  }

  #tell(problem: string | undefined): void {
    this.#problem.textContent = problem ?? ''
    this.#text.toggleAttribute('aria-invalid', problem !== undefined)
  }
}
