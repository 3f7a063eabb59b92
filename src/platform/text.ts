/** Longer words are no slips, and each of their letters costs the length of all candidates. */
const MAX_WORD = 128

/**
 * The candidate that was probably meant: the one with the smallest edit distance from `word`, if it is close (at most a
 * third of the letters, or one in short words, differ) and shares a letter; else the longest one that `word` goes on from,
 * as `--admin-port` does from `--admin`; else the only one that goes on from `word`, as `status` does from `stat`.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_WORD) return undefined
  const all = [...candidates]
  let best: string | undefined
  let least = Math.max(1, Math.floor(word.length / 3)) + 1
  for (const candidate of all) {
    const distance = edits(word.toLowerCase(), candidate.toLowerCase())
    const shareLetters = distance < Math.max(word.length, candidate.length)
    if (distance < least && shareLetters) {
      best = candidate
      least = distance
    }
  }
  return best ?? longestStart(word, all) ?? onlyContinuation(word, all)
}

function longestStart(word: string, candidates: readonly string[]): string | undefined {
  const starts = candidates.filter(
    (start) => word.startsWith(start) && /^[-A-Z]/.test(word.slice(start.length)),
  )
  return starts.sort((a, b) => b.length - a.length)[0]
}

/** Fewer letters say nothing. */
const LEAST_START = 3

function onlyContinuation(word: string, candidates: readonly string[]): string | undefined {
  const [only, other] = candidates.filter((each) => each.startsWith(word))
  return word.length >= LEAST_START && other === undefined ? only : undefined
}

/** A hint to append to a message: `; did you mean "port"?`, or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const meant = nearest(word, candidates)
  return meant === undefined ? '' : `; did you mean "${meant}"?`
}

/** Levenshtein distance, one row at a time; two letters in the wrong order are one edit. */
function edits(from: string, to: string): number {
  let before: readonly number[] = []
  let row: readonly number[] = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < to.length; j++) {
      const substituted = (row[j] ?? 0) + (from[i] === to[j] ? 0 : 1)
      const areSwapped = i > 0 && j > 0 && from[i] === to[j - 1] && from[i - 1] === to[j]
      const swapped = areSwapped ? (before[j - 1] ?? 0) + 1 : Number.POSITIVE_INFINITY
      next.push(Math.min(substituted, swapped, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}

/**
 * Whether a text has these parts in their order, with anything between them, and the first and the last one at its ends. Not a
 * regular expression: its time could grow with a power of the length.
 */
export function fitsParts(text: string, [first = '', ...others]: readonly string[]): boolean {
  const last = others.pop()
  if (last === undefined) return text === first
  if (!text.startsWith(first)) return false
  let at = first.length
  for (const part of others) {
    const found = text.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return at + last.length <= text.length && text.endsWith(last)
}

/** A text without these characters at its ends. A pattern such as `/ +$/` takes time that grows with the square of the length. */
export function trimEnds(text: string, characters: string): string {
  let start = 0
  let end = text.length
  while (start < end && characters.includes(text.charAt(start))) start++
  while (end > start && characters.includes(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

/** Whether a name and a text can be sent as a header; Node's own check puts the value, maybe secret, into its error. */
export function isHeader(name: string, value: string): boolean {
  return name.length < 256 && /^[\w!#$%&'*+.^`|~-]+$/.test(name) && isHeaderValue(value)
}

/** Whether a text can be sent as a header's value. */
export function isHeaderValue(value: string): boolean {
  return value.length < 16_384 && /^[\t -~\x80-\xff]*$/.test(value)
}

/** Whether a text begins as a media type does: `text/html; charset=utf-8`. Fastify replaces or refuses any other. */
export function isMediaType(text: string): boolean {
  return MEDIA_TYPE.test(text)
}

const MEDIA_TYPE = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches control characters
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

/**
 * Escapes characters that could move a terminal's cursor, reverse the text or forge a line: guests choose names and
 * write into the log.
 */
export function printable(text: string): string {
  return text.replace(CONTROLS, escapeAll)
}

/** Makes a line of JSON printable without changing its value. JSON has escaped the other control characters already. */
export function printableJson(line: string): string {
  return line.replace(CONTROLS_IN_JSON, escapeAll)
}

const CONTROLS_IN_JSON = /[\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g

function escapeAll(controls: string): string {
  let escaped = ''
  for (let i = 0; i < controls.length; i++) escaped += escapeOf(controls.charCodeAt(i))
  return escaped
}

/** Cached per character: a guest can log many. */
function escapeOf(code: number): string {
  let escaped = ESCAPES.get(code)
  if (escaped === undefined) {
    escaped = `\\u${code.toString(16).padStart(4, '0')}`
    ESCAPES.set(code, escaped)
  }
  return escaped
}

const ESCAPES = new Map<number, string>()

/** Limits of names in messages. */
const MAX_LISTED = 8
const MAX_LISTED_CHARACTERS = 80

/** Names from others, for a message: the first ones, cut. */
export function listed(names: readonly string[]): string {
  if (names.length === 0) return 'none'
  const shown = names.slice(0, MAX_LISTED).map((name) => printable(name.slice(0, MAX_LISTED_CHARACTERS)))
  const more = names.length > MAX_LISTED ? [`and ${names.length - MAX_LISTED} more`] : []
  return [...shown, ...more].join(', ')
}

/** Characters of a cell. */
const MAX_CELL = 200

/** Renders rows of cells as lines with aligned columns. A long cell is cut: each row of its column would be as long. */
export function renderTable(rows: readonly (readonly string[])[]): string[] {
  const shown = rows.map((row) =>
    row.map((cell) => (cell.length > MAX_CELL ? `${cell.slice(0, MAX_CELL)}...` : cell)),
  )
  const widths = shown[0]?.map((_, column) => Math.max(...shown.map((row) => row[column]?.length ?? 0))) ?? []
  return shown.map((row) =>
    `  ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd(),
  )
}

/** Quotes a word for a shell if necessary. */
export function shellWord(word: string): string {
  return /^[\w:/.,=@%+~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
