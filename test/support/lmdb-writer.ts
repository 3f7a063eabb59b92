import { writeSync } from 'node:fs'
import { openLmdbStore } from '../../src/guest/store/lmdb.ts'
import { stormValue } from './storm.ts'

/*
 * Writes to a store until it is killed. A line of output for each write that was acknowledged: `w` and its number, or
 * `c` for an addition to the counter that all writers share.
 */

const [folder = '', id = '', first = '0'] = process.argv.slice(2)
const store = await openLmdbStore({ folder })
let next = Number(first)

async function write(): Promise<never> {
  for (;;) {
    const number = next++
    await store.set('storm', `${id} ${number}`, stormValue(id, number))
    await store.set('storm', `${id} last`, stormValue(id, number))
    writeSync(1, `w ${number}\n`)
  }
}

async function count(): Promise<never> {
  for (;;) {
    const found = await store.get('storm', 'count')
    const more = Buffer.from(String(Number(found ? Buffer.from(found).toString() : 0) + 1))
    if (await store.compareAndSwap('storm', 'count', found, more)) writeSync(1, 'c\n')
  }
}

await Promise.all([write(), write(), write(), count()])
