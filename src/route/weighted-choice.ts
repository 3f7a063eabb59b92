/**
 * Splits calls between two versions deterministically: of any 100 consecutive calls exactly `percent`, evenly spread,
 * go to the second.
 *
 * @param percent - From 0 to 100.
 * @returns a function that returns whether the next call is one of the second.
 */
export function weightedChoice(percent: number): () => boolean {
  let owed = 0
  return () => {
    owed += percent
    if (owed < 100) return false
    owed -= 100
    return true
  }
}
