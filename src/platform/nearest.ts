/**
 * The candidate that was probably meant: the one that the fewest edits turn `word` into.
 *
 * @returns undefined if none is close (more than a third of the letters, or two in short words, differ), or shares a
 * letter.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = Math.max(2, Math.floor(word.length / 3)) + 1
  for (const candidate of candidates) {
    const distance = edits(word.toLowerCase(), candidate.toLowerCase())
    const shareLetters = distance < Math.max(word.length, candidate.length)
    if (distance < least && shareLetters) {
      best = candidate
      least = distance
    }
  }
  return best
}

/** A hint to append to a message: `; did you mean "port"?`, or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const meant = nearest(word, candidates)
  return meant === undefined ? '' : `; did you mean "${meant}"?`
}

/** Levenshtein distance, one row at a time. */
function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < to.length; j++) {
      const substituted = (row[j] ?? 0) + (from[i] === to[j] ? 0 : 1)
      next.push(Math.min(substituted, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
