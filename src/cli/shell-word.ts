/** A word as it has to be typed into a shell. */
export function shellWord(word: string): string {
  return /^[\w:/.,=@%+~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
