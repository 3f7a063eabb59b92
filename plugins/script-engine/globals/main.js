import { atob, btoa, TextDecoder, TextEncoder } from './bytes.js'
import { structuredClone } from './clone.js'
import { console } from './console.js'
import { crypto } from './crypto.js'
import { AbortController, AbortSignal, CustomEvent, Event, EventTarget } from './events.js'
import { Config, declareFunctions, Host, Http, Memory, MemoryHandle, Var } from './extism.js'
import { fetch, Headers, Request, Response } from './fetch.js'
import { describe } from './inspect.js'
import { kv, StoreError } from './kv.js'
import * as script from './script.js'
import { setAbout } from './stack.js'
import { StreamError, socket, stream } from './streams.js'
import * as timers from './timers.js'
import { URL, URLSearchParams } from './url.js'

/* The globals of scripts, and what lib.rs needs of JavaScript. `host` has the functions of host.rs. */

const { clearTimeout, performance, queueMicrotask, setImmediate, setInterval, setTimeout } = timers
const { module, require } = script

const globals = {
  ...{ AbortController, AbortSignal, Config, CustomEvent, Event, EventTarget, Headers, Host, Http },
  ...{ Memory, MemoryHandle, Request, Response, TextDecoder, TextEncoder, URL, URLSearchParams, Var },
  ...{ atob, btoa, console, crypto, fetch, performance, queueMicrotask, structuredClone },
  ...{ setImmediate, setInterval, setTimeout },
  ...{ clearImmediate: clearTimeout, clearInterval: clearTimeout, clearTimeout },
  ...{ exports: module.exports, global: globalThis, module, require, self: globalThis },
}
for (const [name, value] of Object.entries(globals))
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
Math.random = host.random

/** What scripts can import, by the names of modules. */
const modules = {
  'wasm-serve:http': { stream, StreamError },
  'wasm-serve:kv': { kv, StoreError },
  'wasm-serve:websocket': { socket, StreamError },
}
script.provide(modules)

let functions = []

/** Promises that were rejected, with nobody to handle it. */
const rejections = new Map()

function logRejections() {
  for (const reason of rejections.values()) console.error('Unhandled rejection:', reason)
  rejections.clear()
}

export const engine = {
  call: script.call,
  commonJs: script.commonJs,
  describe,
  describedBy: (json) => {
    const about = JSON.parse(json)
    setAbout(about)
    functions = about.functions
    declareFunctions(about.hostFunctions)
    return about
  },
  ended: () => {
    timers.clearTimers()
    logRejections()
  },
  inspect: script.factsOf,
  inspectFailure: script.factsOfFailure,
  mayBeModule: script.mayBeModule,
  modules,
  started: (exported) => {
    script.start(exported, functions)
    logRejections()
  },
  track: (promise, reason, isHandled) => {
    if (isHandled) rejections.delete(promise)
    else rejections.set(promise, reason)
  },
  turn: timers.turn,
}
