import { kv } from 'wasm-serve:kv'

/** Counts how often each name has come, in whatever thread or process. */
export function visits(name = 'World') {
  for (;;) {
    const before = kv.get(name)
    const count = Number(before ?? 0) + 1
    const isCounted =
      before === null ? kv.setIfAbsent(name, `${count}`) : kv.compareAndSwap(name, before, `${count}`)
    if (isCounted) return `${name}: ${count}\n` // else somebody else was counted meanwhile
  }
}
