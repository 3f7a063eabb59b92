import { createServer } from 'node:net'
import { isMainThread } from 'node:worker_threads'

/*
 * Loaded before the command (`node --import probe.js?socket=PATH&export=NAME`): notices each instance of the guest, and tells who
 * connects to the socket how much memory they have. WebAssembly's memory never shrinks: what an instance has when the
 * next one comes is the most that it had.
 */

const { searchParams } = new URL(import.meta.url)
const socket = searchParams.get('socket')
/** Distinguishes the guest from the kernel. */
const exportName = searchParams.get('export')

let instances = 0
let mostBytes = 0
/** Of the instance that is in use. */
let memory = new WebAssembly.Memory({ initial: 0 })

const takeNote = () => {
  mostBytes = Math.max(mostBytes, memory.buffer.byteLength)
}

WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
  construct(Instance, args) {
    const instance = Reflect.construct(Instance, args)
    if (exportName in instance.exports) {
      takeNote()
      memory = instance.exports.memory
      instances++
    }
    return instance
  },
})

if (isMainThread && socket) {
  const server = createServer((connection) => {
    takeNote()
    connection.end(JSON.stringify({ bytes: memory.buffer.byteLength, mostBytes, instances }))
  })
  server.listen(socket).unref()
}
