/*
 * Every failure that wasm-serve causes, with the HTTP status that a client sees when a request meets it.
 * Codes are spelled out so that grep finds them; they are never renamed or reused.
 */

export * from './call.ts'
export * from './plugin.ts'
export * from './server.ts'
