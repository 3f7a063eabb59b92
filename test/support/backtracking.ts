import { type Part, parsePattern } from '../../src/platform/pattern-parser.ts'

/**
 * Whether the time of a regular expression can grow faster than the length of a text: whether two ways through it, or two places to
 * begin, consume the same characters again and again, so that one is tried after the other has failed. (Infinite ambiguity of its
 * automaton; Weber and Seidl, 1991)
 *
 * @throws SyntaxError for lookbehinds and back-references.
 */
export function canBacktrack(source: string, flags: string): boolean {
  return branchesOf(parsePattern(source)).some((branch) => isAmbiguous(branch, flags))
}

/** What is tried by itself: the expression without its lookaheads, and each lookahead after what is before it. */
function branchesOf(part: Part): Part[] {
  if (part.kind !== 'all' && part.kind !== 'any') return [part, ...looksIn(part)]
  if (part.kind === 'any') return part.parts.flatMap(branchesOf)
  const looks = part.parts.flatMap((each, index) =>
    each.kind === 'look'
      ? [{ kind: 'all', parts: [...part.parts.slice(0, index), each.part] } as const]
      : looksIn(each),
  )
  return [part, ...looks]
}

function looksIn(part: Part): Part[] {
  if (part.kind === 'look') return branchesOf(part.part)
  if (part.kind === 'repeat') return looksIn(part.part)
  return part.kind === 'all' || part.kind === 'any' ? part.parts.flatMap(looksIn) : []
}

/** Whether a match may have to be given up after all of it was found. */
function hasAssertion(part: Part): boolean {
  if (part.kind === 'repeat') return hasAssertion(part.part)
  if (part.kind === 'all' || part.kind === 'any') return part.parts.some(hasAssertion)
  return part.kind === 'look' || (part.kind === 'assert' && part.source !== '^')
}

/** One of each kind of characters. */
const CHARACTERS = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  'ä',
  '\u0085',
  '\u2028',
  '\u212a',
  '😄',
]

/** Before the first character, and after the last one. */
const START = 1n << BigInt(CHARACTERS.length)
const END = 2n * START

const ANY = START - 1n

/** Repetitions that are written out; more count as infinite. */
const MAX_COPIES = 4

/** The characters that each place in an expression consumes, and the places after it. Place 0 is before a match. */
class Automaton {
  readonly masks: bigint[] = [ANY]
  readonly next: Set<number>[] = [new Set()]
  /** Steps that are there twice: without a character between them. */
  readonly twice = new Set<string>()
  /** Places after which the match is complete: nothing is tried again. */
  readonly complete: ReadonlySet<number>
  readonly #flags: string

  constructor(part: Part, flags: string) {
    this.#flags = flags.replace(/[gyd]/g, '')
    if (!flags.includes('y')) this.#join([0], [0])
    const { first, last } = this.#add(part)
    this.#join([0], first)
    this.complete = new Set(hasAssertion(part) ? [] : last)
  }

  #add(part: Part): Fragment {
    switch (part.kind) {
      case 'one':
        return this.#place(maskOf(part.source, this.#flags))
      case 'assert':
        if (part.source === '$') return this.#place(END)
        return part.source === '^' && !this.#flags.includes('m') ? this.#place(START) : NOTHING
      case 'look':
        return NOTHING
      case 'all':
        return part.parts.reduce<Fragment>((before, each) => this.#after(before, this.#add(each)), NOTHING)
      case 'any': {
        const all = part.parts.map((each) => this.#add(each))
        return {
          first: all.flatMap(({ first }) => first),
          last: all.flatMap(({ last }) => last),
          isEmpty: all.some(({ isEmpty }) => isEmpty),
        }
      }
      case 'repeat':
        return this.#repeat(part)
    }
  }

  #repeat({ part, min, max }: Extract<Part, { kind: 'repeat' }>): Fragment {
    let all = NOTHING
    for (let times = 0; times < Math.min(min, MAX_COPIES); times++) all = this.#after(all, this.#add(part))
    if (max > MAX_COPIES) {
      const loop = this.#add(part)
      this.#join(loop.last, loop.first)
      return this.#after(all, { ...loop, isEmpty: true })
    }
    for (let times = min; times < max; times++) all = this.#after(all, { ...this.#add(part), isEmpty: true })
    return all
  }

  #after(one: Fragment, other: Fragment): Fragment {
    this.#join(one.last, other.first)
    return {
      first: one.isEmpty ? [...one.first, ...other.first] : one.first,
      last: other.isEmpty ? [...one.last, ...other.last] : other.last,
      isEmpty: one.isEmpty && other.isEmpty,
    }
  }

  #place(mask: bigint): Fragment {
    const place = this.masks.push(mask) - 1
    this.next.push(new Set())
    return { first: [place], last: [place], isEmpty: false }
  }

  #join(from: readonly number[], to: readonly number[]): void {
    for (const one of from)
      for (const other of to) {
        if (this.next[one]?.has(other)) this.twice.add(`${one} ${other}`)
        this.next[one]?.add(other)
      }
  }

  /** The places that each place can be followed by, at any distance. */
  reach(): Set<number>[] {
    return this.next.map((_, place) => {
      const seen = new Set<number>()
      const left = [...(this.next[place] ?? [])]
      for (let each = left.pop(); each !== undefined; each = left.pop()) {
        if (seen.has(each)) continue
        seen.add(each)
        left.push(...(this.next[each] ?? []))
      }
      return seen
    })
  }
}

interface Fragment {
  readonly first: readonly number[]
  readonly last: readonly number[]
  readonly isEmpty: boolean
}

const NOTHING: Fragment = { first: [], last: [], isEmpty: true }

function maskOf(source: string, flags: string): bigint {
  const one = new RegExp(`^(?:${source})$`, flags.includes('u') ? flags : `${flags}u`)
  return CHARACTERS.reduce((mask, char, index) => (one.test(char) ? mask | (1n << BigInt(index)) : mask), 0n)
}

function isAmbiguous(part: Part, flags: string): boolean {
  const automaton = new Automaton(part, flags)
  const { complete, twice } = automaton
  const reach = automaton.reach()
  const loops = reach.flatMap((after, place) => (after.has(place) ? [place] : []))
  const isRepeated = (step: string) => {
    const [one = 0, other = 0] = step.split(' ').map(Number)
    return !complete.has(other) && reach[one]?.has(other) && reach[other]?.has(one)
  }
  return (
    [...twice].some(isRepeated) ||
    loops.some((from) =>
      loops
        .filter((to) => !complete.has(to))
        .some((to) =>
          from === to ? splits(automaton, from) : reach[from]?.has(to) && meets(automaton, reach, from, to),
        ),
    )
  )
}

/** Whether two different ways from a place lead back to it with the same characters. */
function splits(automaton: Automaton, place: number): boolean {
  return walk(
    automaton,
    [place, place, 0],
    ([one, other, was]) => one === place && other === place && was === 1,
    (next) => {
      const [one, other, was] = next
      return [one, other, was === 1 || one !== other ? 1 : 0]
    },
    2,
  )
}

/** Whether the same characters lead from one place back to it, from it to the other, and from the other back to it. */
function meets(automaton: Automaton, reach: readonly Set<number>[], from: number, to: number): boolean {
  const isUseful = ([one, way, other]: Places) =>
    (one === from || reach[one]?.has(from)) &&
    (way === to || reach[way]?.has(to)) &&
    (other === to || reach[other]?.has(to))
  return walk(
    automaton,
    [from, from, to],
    ([one, way, other]) => one === from && way === to && other === to,
    (next) => (isUseful(next) ? next : undefined),
    3,
  )
}

type Places = readonly [number, number, number]

/** Searches what places can be reached together by at least one character. @param moving - The number of places that move. */
function walk(
  { masks, next }: Automaton,
  start: Places,
  isFound: (places: Places) => boolean,
  keep: (places: Places) => Places | undefined,
  moving: 2 | 3,
): boolean {
  const seen = new Set<string>()
  const left: Places[] = [start]
  for (let places = left.pop(); places; places = left.pop()) {
    const [one, other, third] = places
    for (const a of next[one] ?? [])
      for (const b of next[other] ?? []) {
        const both = (masks[a] ?? 0n) & (masks[b] ?? 0n)
        if (both === 0n) continue
        for (const c of moving === 3 ? (next[third] ?? []) : [third]) {
          if (moving === 3 && (both & (masks[c] ?? 0n)) === 0n) continue
          const kept = keep([a, b, c])
          if (!kept) continue
          if (isFound(kept)) return true
          const key = kept.join(' ')
          if (!seen.has(key)) left.push(kept)
          seen.add(key)
        }
      }
  }
  return false
}
