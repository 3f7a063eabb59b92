/// <reference path="./modules.d.ts" />

/*
 * The globals of scripts that wasm-serve serves as plug-ins, besides those of JavaScript and of the web, which TypeScript has in its
 * libraries ES2023 and DOM: console, fetch, Headers, Request, Response, URL, URLSearchParams, TextEncoder, TextDecoder, atob, btoa,
 * crypto.getRandomValues, crypto.randomUUID, structuredClone, performance.now, timers, AbortController.
 *
 * In a script: `import type {} from 'wasm-serve/plugin'`. For all files of a project: `"types": ["wasm-serve/plugin"]` in tsconfig.json.
 */

export {}

type Bytes = ArrayBufferLike | ArrayBufferView

declare global {
  /** Input and output of a call. A function with a parameter gets the input as its argument, and what it returns is the output. */
  const Host: {
    inputBytes(): ArrayBuffer
    inputString(): string
    outputBytes(output: Bytes): boolean
    outputString(output: string): boolean
    arrayBufferToBase64(input: Bytes): string
    base64ToArrayBuffer(input: string): ArrayBuffer
    /**
     * Functions of the host, which the script declares:
     * `declare module 'extism:host' { interface user { add(a: I64, b: I64): I64 } }`
     */
    getFunctions(): import('extism:host').user
  }

  /** The configuration of the plug-in: `--config name=value`. */
  const Config: {
    get(name: string): string | null
  }

  /** Values that outlive a call, as long as the instance lives. */
  const Var: {
    getBytes(name: string): ArrayBuffer | null
    getString(name: string): string | null
    set(name: string, value: string | Bytes): void
    remove(name: string): void
  }

  /** Requests to hosts that are allowed: `--allow-host`. `fetch` does the same. */
  const Http: {
    request(request: HttpRequest, body?: string | Bytes): HttpResponse
  }

  interface HttpRequest {
    url: string
    /** Default: GET. */
    method?: string
    headers?: Record<string, string | number | boolean>
  }

  interface HttpResponse {
    status: number
    body: string
    headers?: Record<string, string>
  }

  /** Blocks of Extism's memory. */
  const Memory: {
    fromString(text: string): MemoryHandle
    fromBuffer(bytes: Bytes): MemoryHandle
    fromJsonObject(value: unknown): MemoryHandle
    allocUInt32(value: number): MemoryHandle
    allocUInt64(value: bigint): MemoryHandle
    allocFloat32(value: number): MemoryHandle
    allocFloat64(value: number): MemoryHandle
    find(block: I64 | PTR): MemoryHandle | undefined
  }

  /** Values of functions of the host. An integer that a number cannot hold is a bigint. */
  type I32 = number
  type I64 = number | bigint
  type F32 = number
  type F64 = number
  /** A block of Extism's memory: as an argument, or its offset. */
  type PTR = number | MemoryHandle

  interface MemoryHandle {
    readonly offset: number
    readonly len: number
    readBytes(): ArrayBuffer
    readString(): string
    readJsonObject(): unknown
    readUInt32(): number
    readUInt64(): bigint
    readFloat32(): number
    readUFloat64(): number
    free(): void
  }
}
