/*
 * Every failure that wasm-serve causes, with its HTTP status.
 * Codes are spelled out so that grep finds them; they are never renamed or reused.
 */

export * from './call.ts'
export * from './fleet.ts'
export * from './mcp.ts'
export * from './plugin.ts'
export * from './registry.ts'
export * from './server.ts'
