/** Defaults of the option `mcp`, where another option does not decide. The schema has none: `mcp` itself is optional. */
export const MCP_DEFAULTS = {
  url: '/mcp',
  name: 'wasm-serve',
  pageSize: 100,
  ttlMs: 60_000,
  bodyLimit: 1_048_576,
} as const
