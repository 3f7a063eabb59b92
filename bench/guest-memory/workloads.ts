/** The task of a guest of `bench/guests/memory` in a call: one of its exports, and the right answer for a number. */
export interface Workload {
  readonly name: 'strings' | 'trees' | 'words'
  readonly title: string
  answer(seed: number): number
}

/** Each answer is a sum over the guest's memory: an overwritten value would change it. */
export const WORKLOADS: readonly Workload[] = [
  { name: 'strings', title: 'twenty strings of 100 kB, each dead at once', answer: strings },
  { name: 'trees', title: 'two trees of 2,047 nodes, beside a tree that lives on', answer: trees },
  { name: 'words', title: 'a map of 500 short strings', answer: words },
]

function strings(seed: number): number {
  let total = 0
  for (let i = 0; i < 20; i++) {
    const unit = `${seed}-${i};`
    const length = Math.floor(100_000 / unit.length) * unit.length
    total += length + unit.charCodeAt((length - 1 - i) % unit.length)
  }
  return total
}

function trees(seed: number): number {
  return 3 + sumOfTree(10, seed) + sumOfTree(10, seed + 1)
}

/** The sum of a node's value v and those of its descendants: its children have 2v and 2v + 1. */
function sumOfTree(depth: number, value: number): number {
  if (depth === 0) return value
  return value + sumOfTree(depth - 1, 2 * value) + sumOfTree(depth - 1, 2 * value + 1)
}

function words(seed: number): number {
  let total = seed
  for (let i = 0; i < 500; i++) {
    const value = `value${i}`
    total += value.length + value.charCodeAt(value.length - 1)
  }
  return total
}
