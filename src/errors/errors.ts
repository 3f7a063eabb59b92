/*
 * Every failure that wasm-serve causes: its class, and its entry in docs/reference/errors.md.
 * Codes are spelled out so that grep finds them; they are never renamed or reused.
 */

export * from './call.ts'
export * from './change.ts'
export * from './command.ts'
export * from './extism.ts'
export * from './fleet.ts'
export * from './mcp.ts'
export * from './outbound.ts'
export * from './plugin.ts'
export * from './registry.ts'
export * from './request.ts'
export * from './server.ts'
export * from './store.ts'
