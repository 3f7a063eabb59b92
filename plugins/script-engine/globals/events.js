import { setTimeout } from './timers.js'

/** An event. No event bubbles: targets have no parents. */
export class Event {
  constructor(type, { bubbles = false, cancelable = false } = {}) {
    Object.assign(this, { type: String(type), bubbles, cancelable, defaultPrevented: false })
    Object.assign(this, { target: null, currentTarget: null, timeStamp: Date.now() })
  }
  preventDefault() {
    this.defaultPrevented = this.cancelable
  }
  stopPropagation() {
    // nothing is above
  }
  stopImmediatePropagation() {
    stopped.add(this)
  }
}

/** Events that no other listener of their target gets. */
const stopped = new WeakSet()

export class CustomEvent extends Event {
  constructor(type, init = {}) {
    super(type, init)
    this.detail = init.detail ?? null
  }
}

export class EventTarget {
  #listeners = []
  addEventListener(type, listener, options) {
    if (!listener || this.#listeners.some((each) => each.type === type && each.listener === listener)) return
    const { once = false, signal } = Object(options)
    if (signal?.aborted) return
    this.#listeners.push({ type, listener, once })
    signal?.addEventListener('abort', () => this.removeEventListener(type, listener))
  }
  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((each) => each.type !== type || each.listener !== listener)
  }
  dispatchEvent(event) {
    Object.assign(event, { target: this, currentTarget: this })
    const own = this[`on${event.type}`]
    if (typeof own === 'function') own.call(this, event)
    for (const { type, listener, once } of [...this.#listeners]) {
      if (type !== event.type || stopped.has(event)) continue
      if (once) this.removeEventListener(type, listener)
      if (typeof listener === 'function') listener.call(this, event)
      else listener.handleEvent(event)
    }
    return !event.defaultPrevented
  }
}

let abort

export class AbortSignal extends EventTarget {
  aborted = false
  reason = undefined
  onabort = null
  throwIfAborted() {
    if (this.aborted) throw this.reason
  }
  static {
    abort = (signal, reason = new DOMException('the operation was aborted', 'AbortError')) => {
      if (signal.aborted) return
      Object.assign(signal, { aborted: true, reason })
      signal.dispatchEvent(new Event('abort'))
    }
  }
  static abort(reason) {
    const signal = new AbortSignal()
    abort(signal, reason)
    return signal
  }
  static any(signals) {
    const all = new AbortSignal()
    for (const signal of signals) {
      if (signal.aborted) abort(all, signal.reason)
      signal.addEventListener('abort', () => abort(all, signal.reason))
    }
    return all
  }
  static timeout(ms) {
    const signal = new AbortSignal()
    setTimeout(() => abort(signal, new DOMException('the time is over', 'TimeoutError')), ms)
    return signal
  }
}

export class AbortController {
  signal = new AbortSignal()
  abort(reason) {
    abort(this.signal, reason)
  }
}
