import { executionAsyncResource } from 'node:async_hooks'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as NetServer, Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext, runInThisContext } from 'node:vm'
import { discardRest } from './unread-body.ts'

/*
 * Workarounds for Node.js and V8. Each names the versions that need it, the upstream issue where one is known, and the
 * condition under which it can be removed.
 */

/**
 * One of the objects that `process.nextTick` queues, kept for the life of the process. Import this module first.
 *
 * V8 forgets the shape of objects when a garbage collection finds none of them. `nextTick` builds its objects with
 * computed keys. V8's code for that (`DefineKeyedOwnPropertyInLiteral`) stays slow after it met a forgotten shape: each
 * tick of the process takes 0.2 us, not 0.03. HTTP needs a dozen ticks for a request: 2.5 us. Loading a program ends
 * with a collection, so nearly every server starts in that state.
 *
 * Node.js 20 to 26. No upstream issue is known. Remove it when the guard's ratio "time of a tick after V8 has
 * collected" is 1 on all supported versions (`npm run bench -- guard`).
 */
const keptTicks: object[] = []

process.nextTick(() => keptTicks.push(executionAsyncResource()))

/**
 * Raises the process-wide ceiling on WebAssembly memory, a V8 flag. It backs the limit that is written into each
 * module. It is never lowered, because running guests keep their memory.
 *
 * All versions: V8 takes no such limit per memory. Remove it when `WebAssembly` has one.
 *
 * @param pages - Of 64 KiB.
 */
export function raiseMemoryCeiling(pages: number): void {
  if (pages <= ceiling) return
  ceiling = pages
  setFlagsFromString(`--wasm-max-mem-pages=${Math.min(pages, 65_536)}`)
}

let ceiling = 0

/**
 * Bounds the memory of V8's optimising compiler, by V8 flags of the process: it optimises one WebAssembly function of a
 * module at a time, and does not copy values into each branch that uses them (`turbo-splitting`, Node.js 20), which takes
 * memory and time with the square of a function's length: 1.5 GB for 40 KB. The limits of modules rely on that.
 *
 * Node.js 20 to 26. Remove it when V8 limits the memory of its compiler.
 */
export function boundOptimiser(): void {
  setFlagsFromString('--wasm-num-compilation-tasks=1')
  setFlagsFromString('--no-turbo-splitting')
}

/**
 * Makes V8 use branch hints of WebAssembly, by a V8 flag of the process: without them, a loop that rarely calls a function is
 * up to twice as slow.
 *
 * Node.js 20 to 26. (https://github.com/WebAssembly/branch-hinting) Remove it when V8 uses them by default.
 */
export function useBranchHints(): void {
  setFlagsFromString('--experimental-wasm-branch-hinting')
}

/**
 * Ends this process with an exit code although threads are stuck in native calls: `process.exit` would wait for them.
 * Node's WASI calls `exit` of the C library, which waits for no thread. Where Node's permission model refuses WASI, the
 * process is killed.
 *
 * Node.js 20 to 26. (https://github.com/nodejs/uvwasi, `uvwasi_proc_exit`) Remove it when `process.exit` stops waiting
 * for worker threads.
 */
export function exitProcess(code: number): void {
  try {
    const { WASI } = process.getBuiltinModule('node:wasi')
    const wasi = new WASI({ version: 'preview1', returnOnExit: false })
    wasi.start(new WebAssembly.Instance(exitModule(code), { wasi_snapshot_preview1: wasi.wasiImport }))
  } catch {
    // The process is still there.
  }
  killProcess()
}

/** A program that ends with this status, of 0 to 127. */
function exitModule(status: number): WebAssembly.Module {
  const name = (text: string) => [text.length, ...Buffer.from(text)]
  const section = (id: number, ...bytes: number[]) => [id, bytes.length, ...bytes]
  return new WebAssembly.Module(
    Uint8Array.of(
      ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
      ...section(1, 2, 0x60, 1, 0x7f, 0, 0x60, 0, 0), // types: (i32) -> (), () -> ()
      ...section(2, 1, ...name('wasi_snapshot_preview1'), ...name('proc_exit'), 0, 0),
      ...section(3, 1, 1),
      ...section(5, 1, 0, 0),
      ...section(7, 2, ...name('memory'), 2, 0, ...name('_start'), 0, 1),
      ...section(10, 1, 7, 0, 0x41, status | 0x80, 0, 0x10, 0, 0x0b), // i32.const status; call 0
    ),
  )
}

/**
 * Kills this process from any of its threads with SIGKILL (exit code 137). Process 1 of a container ignores signals
 * from inside, except a breakpoint (SIGTRAP, 133) that it does not handle.
 *
 * Node.js 20 to 26: a thread has no `process.abort`, and Node's handler of the SIGSEGV that ends it never returns.
 * Remove the breakpoint when a thread can abort its process.
 */
export function killProcess(): void {
  process.kill(process.pid, 'SIGKILL')
  setFlagsFromString('--allow-natives-syntax')
  runInThisContext('%SystemBreak()')
}

/**
 * Keeps `server.close` from closing idle connections: Node takes a connection whose answer is still being written for
 * an idle one.
 *
 * Node.js 20 to 26. Related: https://github.com/nodejs/node/issues/43771, which was fixed for answers that have not
 * begun. Remove it when `closeIdleConnections` leaves connections alone whose answer is not flushed.
 *
 * @returns closes the idle connections.
 */
export function deferIdleClose(server: Server): () => void {
  const closeIdle = server.closeIdleConnections.bind(server)
  server.closeIdleConnections = () => undefined
  return closeIdle
}

/**
 * Lets a connection end after its last request has arrived. Node closes a connection with its last answer, which may be
 * that to `Connection: close`. If that answer came before the whole request, such as a 404, the rest of the request meets a
 * reset and the answer may be lost.
 *
 * Node.js 20 to 26. No upstream issue is known. Remove it when Node reads the rest of a request before it closes.
 *
 * @param lastRequest - The connection's last request, as far as it is known.
 */
export function closeAfterRequest(socket: Socket, lastRequest: () => IncomingMessage | undefined): void {
  const destroySoon = socket.destroySoon.bind(socket)
  socket.destroySoon = () => {
    const request = lastRequest()
    if (!request || request.complete) return destroySoon()
    socket.end()
    void discardRest(request).then(destroySoon)
  }
}

/**
 * Lets Node pause its HTTP/1 connections with TLS. It pauses one, and its parser, when a request arrives while an answer of
 * more than 16 KiB is still being sent, even if the client has read all of it. TLS then passes the records that it has
 * already received to the parser, which takes them for malformed (`HPE_PAUSED`). The parser need not pause: nothing more is
 * read from the connection. Node uses its parsers again for other connections, where the same holds.
 *
 * Node.js 20 to 26. No upstream issue is known. Remove it when a request of 60 KB is answered that arrives on a connection
 * whose client has yet to read 16 MB.
 */
export function keepRecordsOfPaused(server: NetServer): void {
  server.on('secureConnection', ({ parser }: Socket & { readonly parser?: { pause(): void } | null }) => {
    if (parser) parser.pause = () => undefined
  })
}

/**
 * Resumes reading from an HTTP/2 connection. Node stops reading when nghttp2 has ended the connection by itself, such as
 * after 1,000 resets of streams that were over already. It then does not notice that the client has left, and the
 * connection counts until its timeout. A connection that has bytes to send is left alone: Node stops reading it so that
 * its client cannot request more than it receives.
 *
 * Node.js 20 to 26 (`MaybeStopReading` in `node_http2.cc`). No upstream issue is known. Remove it when such a session
 * emits `close`: Node has no event and no public method for it.
 */
export function resumeHttp2Reading(socket: Socket & { readonly _handle?: StreamHandle | null }): void {
  if (socket._handle?.writeQueueSize === 0) socket._handle.readStart()
}

/**
 * Reads no more from an HTTP/1.1 connection than what has arrived in the process, until {@link releaseReading}.
 *
 * Node.js 20 to 26: Node resumes a paused connection by itself, when it reads the body of a request or has sent an answer.
 * Remove it when a connection stays paused until it is resumed by who paused it.
 */
export function holdReading(socket: Socket): void {
  socket.pause()
  Object.defineProperty(socket, 'resume', { value: () => socket, configurable: true })
}

/** Reads on, unless the client has not read its answers: then Node resumes the connection. */
export function releaseReading(socket: Socket & { readonly _paused?: boolean }): void {
  Reflect.deleteProperty(socket, 'resume')
  if (!socket._paused) socket.resume()
}

/**
 * Reads no more from an HTTP/2 connection than what has arrived in the process, until {@link resumeHttp2Reading}. Node
 * resumes by itself when it had stopped too and has sent what waited.
 *
 * Node.js 20 to 26: the socket of a session refuses `pause`, and pausing a stream stops nothing before its window is full.
 * Remove it when a session can be paused.
 */
export function pauseHttp2Reading(socket: Socket & { readonly _handle?: StreamHandle | null }): void {
  socket._handle?.readStop()
}

/**
 * Sends the interim answer 100 before an answer. HTTP/1.0 has none. (RFC 9110, section 10.1.1)
 *
 * Node.js 20 to 26: `writeContinue` of an answer that waits for earlier ones of its connection sends it between the head
 * and the body, of which it then seems a part. No upstream issue is known. Remove it when `writeContinue` keeps the order.
 */
export function sendContinue(response: ServerResponse): void {
  if (response.req.httpVersion === '1.0') return
  if (response.socket) response.writeContinue()
  else response.once('socket', () => response.headersSent || response.writeContinue())
}

/**
 * Sends the head of an answer now that `writeHead` has set, each character as a byte. HTTP/2 has sent it then.
 *
 * Node.js 20 to 26: `flushHeaders` sends it in UTF-8. No upstream issue is known. Remove it when that sends Latin-1, as
 * `end` does.
 */
export function flushHead(
  response: ServerResponse & { readonly _send?: (data: string, encoding: 'latin1') => boolean },
): void {
  response._send?.('', 'latin1')
}

/**
 * Bytes that the operating system has taken of what was written to a connection; with TLS, as encrypted. It grows only
 * while the client reads: Node's timeout of a socket also begins anew with each byte that the client sends.
 *
 * Node.js 20 to 26: `bytesWritten` counts bytes that wait in the process. Remove it when a socket tells these apart.
 */
export function bytesTaken({ _handle }: Socket & { readonly _handle?: StreamHandle | null }): number {
  const handle = _handle?._parent ?? _handle
  return handle ? handle.bytesWritten - handle.writeQueueSize : 0
}

interface StreamHandle {
  readonly bytesWritten: number
  readonly writeQueueSize: number
  /** The connection below TLS. */
  readonly _parent?: StreamHandle
  readStart(): void
  readStop(): void
}

/**
 * Closes a connection whose last answer is perhaps incomplete. HTTP/1.0 has no framing: there a reset is the only sign of
 * it. Unix sockets have no resets.
 *
 * Node.js 20 to 26: `resetAndDestroy` waits until the client has read what was written, and throws with TLS and for Unix
 * sockets. Remove `resetAndClosing`, which it sets, and `_parent`, the connection below TLS, when there is such a method.
 */
export function breakOff(
  socket: Socket & { readonly _parent?: Socket | null },
  answer: ServerResponse | undefined,
): void {
  const tcp = socket._parent ?? socket
  const isIncomplete = answer?.req.httpVersion === '1.0' && answer.headersSent && !answer.writableFinished
  if (isIncomplete && tcp.remoteAddress !== undefined) Object.assign(tcp, { resetAndClosing: true }).destroy()
  socket.destroy()
}

/**
 * Lets an HTTP server serve connections that another process has accepted, as if it listened: its timers run, its limit
 * of connections holds, and `close` waits for them.
 *
 * Node.js 20 to 26: a server can be given connections (the event `connection`), but starts its timers and counts
 * connections only if it listens itself. Remove it when there is a method for this.
 *
 * @returns takes a connection.
 */
export function serveHanded(server: Server & { _connections?: number }): (socket: Socket) => void {
  const count = () => server._connections ?? 0
  Object.defineProperty(server, 'listening', { value: true })
  server.emit('listening')
  return (socket) => {
    if (count() >= server.maxConnections) {
      server.emit('drop')
      socket.destroy()
      return
    }
    server._connections = count() + 1
    Object.assign(socket, { _server: server, allowHalfOpen: true }) // the first: it is counted until it is destroyed
    socket.setNoDelay(true)
    server.emit('connection', socket)
  }
}

/**
 * Counts bytes of bodies, and collects young objects after so many of them. Node allocates memory for each piece. It is freed
 * when V8 collects the small object that holds it, which is seldom: 1 GiB through a stream then takes 22 (Node.js 20) to 50 MiB
 * (24) more. Or it is freed when there is so much of it that V8 collects old objects, too: that takes 20 ms for each 24 MiB, and
 * a young collection 0.7 ms.
 *
 * Node.js 20 to 26. No upstream issue is known. Remove it when the resident memory of a server that has just started grows
 * by less than 40 MiB without it.
 */
export function countReadBytes(bytes: number, kind: keyof typeof YOUNG_BYTES): void {
  readShare += bytes / YOUNG_BYTES[kind]
  if (readShare < 1) return
  readShare = 0
  collectYoung ??= findCollector()
  collectYoung({ type: 'minor' })
}

/**
 * Bytes between two collections: less than V8 allows. What survives two of them becomes old, so there have to be
 * more than the bodies have that are read at the same time. Streams are read piece by piece.
 */
const YOUNG_BYTES = { stream: 8 * 2 ** 20, body: 16 * 2 ** 20 }

let readShare = 0
let collectYoung: Collector | undefined

type Collector = (options: { readonly type: 'minor' }) => unknown

/** V8's function is given to new contexts only, while its flag is set. */
function findCollector(): Collector {
  setFlagsFromString('--expose-gc')
  const found: unknown = runInNewContext('gc')
  setFlagsFromString('--no-expose-gc')
  return typeof found === 'function' ? (options) => found(options) : () => undefined
}

/**
 * Frees the memory of a buffer, whose length becomes 0.
 *
 * Node.js 20 has no `ArrayBuffer.prototype.transfer`; V8 detaches with a function of its own there. Remove it with the
 * support for Node.js 20.
 */
export function detach(buffer: ArrayBuffer & { readonly transfer?: (bytes: number) => ArrayBuffer }): void {
  if (buffer.transfer) buffer.transfer(0)
  else {
    detachNatively ??= findDetach()
    detachNatively(buffer)
  }
}

let detachNatively: ((buffer: ArrayBuffer) => unknown) | undefined

/** V8 compiles a function when it is called for the first time, and names of V8's own functions only while its flag is set. */
function findDetach(): (buffer: ArrayBuffer) => unknown {
  setFlagsFromString('--allow-natives-syntax')
  const found: unknown = runInThisContext('(buffer) => %ArrayBufferDetach(buffer)')
  const detach = (buffer: ArrayBuffer) => typeof found === 'function' && found(buffer)
  detach(new ArrayBuffer(0))
  setFlagsFromString('--no-allow-natives-syntax')
  return detach
}

/**
 * Loads a module without the warnings that it causes: `node:wasi` prints that it is experimental.
 *
 * Node.js 20 to 26. Remove it when WASI is stable. (https://nodejs.org/api/wasi.html)
 */
export async function loadQuietly<Module>(load: () => Promise<Module>): Promise<Module> {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return await load()
  } finally {
    process.emitWarning = emitWarning
  }
}
