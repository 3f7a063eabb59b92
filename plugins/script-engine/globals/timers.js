/* Timers run while a call waits for a promise, and end with the call. */

const timers = new Map()
let lastTimer = 0

function addTimer(run, ms, isRepeated, values) {
  if (typeof run !== 'function') throw new TypeError('the first argument of a timer must be a function')
  const every = Math.max(0, Number(ms) || 0)
  timers.set(++lastTimer, {
    run: () => run(...values),
    at: performance.now() + every,
    every: isRepeated ? every : undefined,
  })
  return lastTimer
}

export const setTimeout = (run, ms, ...values) => addTimer(run, ms, false, values)
export const setInterval = (run, ms, ...values) => addTimer(run, ms, true, values)
export const setImmediate = (run, ...values) => addTimer(run, 0, false, values)
export const clearTimeout = (timer) => void timers.delete(timer)

export function turn() {
  const [next, ...others] = timers
  if (!next) throw new Error('a promise stays pending, and nothing is left to run')
  const [id, timer] = others.reduce((first, each) => (each[1].at < first[1].at ? each : first), next)
  const left = timer.at - performance.now()
  if (left > 0) host.sleep(left)
  if (timer.every === undefined) timers.delete(id)
  else timer.at = performance.now() + timer.every
  timer.run()
}

export const queueMicrotask = (run) => void Promise.resolve().then(run)

export const clearTimers = () => timers.clear()

/** That of QuickJS counts from the snapshot, whose clock was 0. */
const now = globalThis.performance.now.bind(globalThis.performance)
let origin

/** Times count from the first question. */
function started() {
  origin ??= { clock: now(), date: Date.now() }
  return origin
}

export const performance = {
  now: () => now() - started().clock,
  get timeOrigin() {
    return started().date
  },
}
