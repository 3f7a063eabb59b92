/*
 * Every failure that wasm-serve causes, with the HTTP status a client sees when a request meets it.
 * Codes are spelled out so that grep finds them; they are never renamed or reused.
 */

export * from './errors/call.ts'
export * from './errors/change.ts'
export * from './errors/outbound.ts'
export * from './errors/plugin.ts'
export * from './errors/request.ts'
export * from './errors/server.ts'
export * from './errors/store.ts'
export * from './errors/usage.ts'
