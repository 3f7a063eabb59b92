import { openLmdbStore } from '../../src/guest/store/lmdb.ts'

/* Fills a store until the disk is full, and prints the result; run it with a limit on file sizes. */

const store = await openLmdbStore({ folder: process.argv[2] ?? '' }).catch((error) => {
  console.log(error.code)
  process.exit(1)
})
const value = new Uint8Array(1_000_000).fill(7)
await store.set('n', 'kept', value)
try {
  for (let i = 0; i < 10; i++) await store.set('n', `more ${i}`, value)
} catch (error) {
  console.log((error as { code?: string }).code)
}
const kept = (await store.get('n', 'kept')) ?? new Uint8Array()
console.log(`kept: ${Buffer.compare(kept, value) === 0}`)
await store.delete('n', 'more 0')
await store.delete('n', 'more 1')
await store.set('n', 'again', value.subarray(0, 500_000))
console.log(`written again: ${(await store.get('n', 'again'))?.length === 500_000}`)
await store.close()
console.log('closed')
