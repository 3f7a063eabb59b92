import { type Part, parsePattern } from './pattern-parser.ts'

/** A pattern that is matched without backtracking. */
interface LinearPattern {
  /**
   * Whether a part of the text matches. Takes time in proportion to the length of the pattern times that of the text.
   *
   * @throws RangeError if lookaheads, which may look at the whole text from each place, take too many steps.
   */
  test(text: string): boolean
  toString(): string
}

/** Instructions of a pattern. A counted part is repeated. */
const MAX_STEPS = 5_000

/** Steps that the lookaheads of one test may take: some 100 ms. */
const MAX_LOOKS = 50_000_000

/**
 * Makes a pattern of a regular expression, as with the flag `u`. All alternatives are followed at once (Thompson's construction), so
 * that none is tried again: in `RegExp` a pattern such as `^(a+)+$` takes time that doubles with each character of a text.
 *
 * @throws SyntaxError for an expression that is wrong, or has lookbehinds or back-references, or is too large.
 */
export function linearPattern(source: string): LinearPattern {
  const program = new Program(parsePattern(source))
  return { test: (text) => program.matches(text, 0, undefined), toString: () => source }
}

type Step =
  | { readonly kind: 'one'; readonly matches: (code: number) => boolean }
  | { readonly kind: 'assert'; readonly source: string }
  | { readonly kind: 'look'; readonly program: Program; readonly isNegative: boolean }
  /** Continues at the next step, or at another one. */
  | { readonly kind: 'fork'; to: number }
  | { readonly kind: 'jump'; to: number }
  | { readonly kind: 'match' }

class Program {
  readonly #steps: Step[] = []
  readonly #matchers = new Map<string, (code: number) => boolean>()
  /** The position at which each step was reached last. */
  readonly #reached: Int32Array

  /** The remaining number of instructions, shared by all programs of a pattern. */
  readonly #size: Left

  constructor(part: Part, size: Left = { left: MAX_STEPS }) {
    this.#size = size
    this.#emit(part)
    this.#push({ kind: 'match' })
    this.#reached = new Int32Array(this.#steps.length)
  }

  /**
   * @param from - Where a match begins, or where it may begin first.
   * @param looks - The steps that are left, if it is a lookahead: its match begins at `from`.
   */
  matches(text: string, from: number, looks: Left | undefined): boolean {
    this.#reached.fill(-1)
    const budget = looks ?? { left: MAX_LOOKS }
    let current: number[] = []
    for (let at = from; at === from || !looks || current.length > 0; ) {
      if ((!looks || at === from) && this.#follow(0, text, at, current, budget)) return true
      const code = text.codePointAt(at)
      if (code === undefined) return false
      at += code > 0xffff ? 2 : 1
      if (looks) spend(looks, this.#steps.length)
      const next: number[] = []
      for (const index of current) {
        const step = this.#steps[index]
        const fits = step?.kind === 'one' && step.matches(code)
        if (fits && this.#follow(index + 1, text, at, next, budget)) return true
      }
      current = next
    }
    return false
  }

  /** Adds the steps that wait for a character. @returns whether the text matches already. */
  #follow(from: number, text: string, at: number, waiting: number[], looks: Left): boolean {
    const left = [from]
    for (let index = left.pop(); index !== undefined; index = left.pop()) {
      if (this.#reached[index] === at) continue
      this.#reached[index] = at
      const step = this.#steps[index]
      if (step === undefined || step.kind === 'match') return true
      if (step.kind === 'one') waiting.push(index)
      else if (step.kind === 'jump') left.push(step.to)
      else if (step.kind === 'fork') left.push(step.to, index + 1)
      else if (step.kind === 'look') {
        spend(looks, step.program.#steps.length)
        if (step.program.matches(text, at, looks) !== step.isNegative) left.push(index + 1)
      } else if (holds(step.source, text, at)) left.push(index + 1)
    }
    return false
  }

  #push<Added extends Step>(step: Added): Added {
    if (--this.#size.left < 0) throw new SyntaxError(`a pattern has more than ${MAX_STEPS} parts`)
    this.#steps.push(step)
    return step
  }

  #emit(part: Part): void {
    switch (part.kind) {
      case 'one':
        this.#push({ kind: 'one', matches: this.#matcherOf(part.source) })
        return
      case 'assert':
        this.#push(part)
        return
      case 'look':
        this.#push({ kind: 'look', program: new Program(part.part, this.#size), isNegative: part.isNegative })
        return
      case 'all':
        for (const each of part.parts) this.#emit(each)
        return
      case 'any':
        this.#emitChoice(part.parts)
        return
      case 'repeat':
        this.#emitRepeat(part)
    }
  }

  #matcherOf(source: string): (code: number) => boolean {
    const matcher = this.#matchers.get(source) ?? matcherOf(source)
    this.#matchers.set(source, matcher)
    return matcher
  }

  #emitChoice(parts: readonly Part[]): void {
    const ends = parts.map((part, index) => {
      const fork = index === parts.length - 1 ? undefined : this.#push({ kind: 'fork', to: 0 })
      this.#emit(part)
      const end = fork && this.#push({ kind: 'jump', to: 0 })
      if (fork) fork.to = this.#steps.length
      return end
    })
    for (const end of ends) if (end) end.to = this.#steps.length
  }

  #emitRepeat({ part, min, max }: Extract<Part, { kind: 'repeat' }>): void {
    for (let times = 0; times < min; times++) this.#emitCounted(part)
    if (max === Number.POSITIVE_INFINITY) {
      const start = this.#steps.length
      const fork = this.#push({ kind: 'fork', to: 0 })
      this.#emit(part)
      this.#push({ kind: 'jump', to: start })
      fork.to = this.#steps.length
      return
    }
    const forks: { to: number }[] = []
    for (let times = min; times < max; times++) {
      forks.push(this.#push({ kind: 'fork', to: 0 }))
      this.#emit(part)
    }
    for (const fork of forks) fork.to = this.#steps.length
  }

  /** Even an empty part counts: there may be billions. */
  #emitCounted(part: Part): void {
    const before = this.#steps.length
    this.#emit(part)
    if (this.#steps.length === before) this.#push({ kind: 'jump', to: before + 1 })
  }
}

/** The number of steps that are left. */
interface Left {
  left: number
}

function spend(looks: Left, steps: number): void {
  looks.left -= 1 + steps
  if (looks.left < 0) throw new RangeError('the lookaheads of a pattern take too many steps')
}

function holds(assertion: string, text: string, at: number): boolean {
  if (assertion === '^') return at === 0
  if (assertion === '$') return at === text.length
  const isBoundary = isWord(text.charAt(at - 1)) !== isWord(text.charAt(at))
  return isBoundary === (assertion === '\\b')
}

function isWord(char: string): boolean {
  return /^\w$/.test(char)
}

/** Whether a character matches the source of one. */
function matcherOf(source: string): (code: number) => boolean {
  const literal = source.codePointAt(0)
  if (/^[^.[\\]$/u.test(source)) return (code) => code === literal
  const one = new RegExp(`^(?:${source})$`, 'u')
  const known = Uint8Array.from({ length: 128 }, (_, code) => (one.test(String.fromCharCode(code)) ? 1 : 0))
  return (code) => (code < 128 ? known[code] === 1 : one.test(String.fromCodePoint(code)))
}
