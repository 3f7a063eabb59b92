import { pathToFileURL } from 'node:url'

/*
 * `node --expose-gc ticks.mjs [MODULE]`: prints how many nanoseconds a tick takes after V8 has collected while the
 * process was idle. MODULE is loaded first.
 */

const [, , module] = process.argv
if (module) await import(pathToFileURL(module).href)

for (let i = 0; i < 300; i++) process.nextTick(() => undefined)
for (let i = 0; i < 6; i++) {
  await new Promise((resolve) => setTimeout(resolve))
  globalThis.gc()
}
console.log(await fastestTick())

/** The fastest of many short batches: other programs on the machine slow some of them. */
async function fastestTick() {
  let fastest = Infinity
  for (let batch = 0; batch < 300; batch++) {
    await new Promise(setImmediate)
    fastest = Math.min(fastest, await timeTicks(1_000))
  }
  return fastest
}

function timeTicks(count) {
  const begun = process.hrtime.bigint()
  return new Promise((resolve) => {
    let left = count
    const tick = () => {
      if (--left > 0) process.nextTick(tick)
      else resolve(Number(process.hrtime.bigint() - begun) / count)
    }
    process.nextTick(tick)
  })
}
