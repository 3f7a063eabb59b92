/*
 * Every failure that wasm-serve causes, with the HTTP status a client sees when a request meets it.
 * Codes are spelled out so that grep finds them; they are never renamed or reused.
 */

export * from './call.ts'
export * from './change.ts'
export * from './extism.ts'
export * from './outbound.ts'
export * from './plugin.ts'
export * from './request.ts'
export * from './server.ts'
export * from './store.ts'
export * from './usage.ts'
