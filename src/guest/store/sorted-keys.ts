/** Most keys of a chunk: to put one in moves half of them on average. */
const CHUNK = 512

/** A set of texts in the order of their code units. To add, delete or find one takes no longer in a large set. */
export class SortedKeys {
  /** In order; none is empty. */
  readonly #chunks: string[][] = []

  add(key: string): void {
    const at = this.#chunkOf(key)
    const chunk = this.#chunks[at]
    if (!chunk) {
      this.#chunks.push([key])
      return
    }
    const place = placeOf(key, chunk)
    if (chunk[place] === key) return
    chunk.splice(place, 0, key)
    if (chunk.length > CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  delete(key: string): void {
    const at = this.#chunkOf(key)
    const chunk = this.#chunks[at]
    const place = chunk ? placeOf(key, chunk) : 0
    if (chunk?.[place] !== key) return
    chunk.splice(place, 1)
    if (chunk.length === 0) this.#chunks.splice(at, 1)
  }

  first(): string | undefined {
    return this.#chunks[0]?.[0]
  }

  /** Those that are not less than `start`, in order; nothing may be added or deleted meanwhile. */
  *from(start: string): Generator<string> {
    const at = this.#chunkOf(start)
    for (const chunk of this.#chunks.slice(at)) {
      for (let i = placeOf(start, chunk); i < chunk.length; i++) yield chunk[i] as string
    }
  }

  /** The last chunk that begins with the key or a lesser one, else the first. */
  #chunkOf(key: string): number {
    let [low, high] = [0, this.#chunks.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#chunks[middle]?.[0] as string) <= key) low = middle + 1
      else high = middle
    }
    return Math.max(0, low - 1)
  }
}

/** Index of the first that is not less. */
function placeOf(key: string, sorted: readonly string[]): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((sorted[middle] as string) < key) low = middle + 1
    else high = middle
  }
  return low
}
