/* What scripts import of wasm-serve. Plug-ins that import it need wasm-serve; others run on every Extism host. */

/** Bodies and responses, piece by piece: docs/write/streams.md. */
declare module 'wasm-serve:http' {
  type Data = string | ArrayBufferLike | ArrayBufferView

  /** The exchange of the call. Each function throws a {@link StreamError}, such as -1: the client has gone. */
  export const stream: {
    /** The next piece of the request's body; undefined at its end. */
    read(): Uint8Array | undefined
    [Symbol.iterator](): Iterator<Uint8Array>
    /** The lines of the request's body, with their ends. */
    lines(): Iterable<string>
    /** Starts the response. `trailers` announces their names. */
    start(head?: { status?: number; headers?: Record<string, string | string[]>; trailers?: string[] }): void
    /** Sends data soon. Waits while the client reads more slowly. */
    write(data: Data): void
    /** Sends now what was written. */
    flush(): void
    /** Ends the response's body with trailers. */
    trailers(trailers: Record<string, string>): void
    /** Sends a server-sent event. The first one starts the response. */
    event(event: { event?: string; id?: string; retry?: number; data?: unknown } | { comment: string }): void
    /** Waits, which takes no time from the deadline. */
    pause(ms: number): void
    readonly isGone: boolean
    /** Begins a request to another server. The end of the call closes it. */
    open(request: {
      url: string
      method?: string
      headers?: Record<string, string>
      length?: number
      redirect?: 'follow' | 'manual'
    }): StreamedRequest
  }

  export interface StreamedRequest extends Iterable<Uint8Array> {
    /** Sends a piece of the body, of up to 256 KiB. @returns false if the response has to be read first. */
    write(data: Data): boolean
    /** Ends the body. Waiting for the response does so, too. */
    end(): void
    response(): { status: number; headers: Record<string, string | string[]> }
    /** The next piece of the response's body; undefined at its end. */
    read(): Uint8Array | undefined
    close(): void
  }

  export class StreamError extends Error {
    readonly code: number
  }
}

/** The connection of the call, on a route with the contract `websocket`: docs/write/websockets.md. */
declare module 'wasm-serve:websocket' {
  export const socket: {
    /** Waits for the next message: text, or bytes; undefined at the end of the connection. */
    receive(): string | Uint8Array | undefined
    [Symbol.iterator](): Iterator<string | Uint8Array>
    send(data: string | ArrayBufferLike | ArrayBufferView): void
    /** @param code - Default: 1000. */
    close(code?: number, reason?: string): void
  }

  export { StreamError } from 'wasm-serve:http'
}

/** The key-value store: docs/write/state.md. Each function throws a {@link StoreError}. */
declare module 'wasm-serve:kv' {
  type Value = string | ArrayBufferLike | ArrayBufferView
  interface Lifetime {
    /** In milliseconds. Default: it stays. */
    ttlMs?: number
  }

  export const kv: {
    get(key: string): string | null
    getBytes(key: string): Uint8Array | null
    set(key: string, value: Value, options?: Lifetime): void
    /** @returns whether there was a value. */
    delete(key: string): boolean
    /** Keys in the order of their bytes. There may be more behind `cursor`. */
    list(prefix?: string, options?: { cursor?: string; limit?: number }): { keys: string[]; cursor?: string }
    /** @returns whether there was no value. */
    setIfAbsent(key: string, value: Value, options?: Lifetime): boolean
    /** @returns whether the value was the expected one. */
    compareAndSwap(key: string, expected: Value, value: Value, options?: Lifetime): boolean
  }

  export class StoreError extends Error {
    readonly code: number
  }
}

/** Functions of the host: `Host.getFunctions()` returns those that a script adds to `user`. */
declare module 'extism:host' {
  interface user {}
}
