import { trimEnds } from '../platform/text.ts'

/** Characters of a name that all clients accept. MCP allows 128. */
const MAX_NAME = 64

/**
 * The name of a route as a tool: its option, else its URL: `/text/upper` is `text_upper`. A route at `/` has the name of
 * its function.
 */
export function toolName({ tool, url }: NamedTool, functionName: string): string {
  if (tool?.name !== undefined) return tool.name
  return nameFrom(url) || nameFrom(functionName) || 'tool'
}

/** Whether all clients accept a name. Some refuse a dot, which MCP allows, and with it all tools of the server. */
export function isPortable(name: string): boolean {
  return /^[A-Za-z0-9_-]+$/.test(name) && name.length <= MAX_NAME
}

function nameFrom(text: string): string {
  return trimEnds(text.replaceAll(/[^A-Za-z0-9_-]+/g, '_'), '_').slice(0, MAX_NAME)
}

/** A route as far as the name of its tool depends on it. */
interface NamedTool {
  readonly url: string
  readonly tool?: { readonly name?: string } | undefined
}

/** Tools of the same name, a line each. */
export function toolConflicts(tools: readonly (NamedTool & { readonly functionName: string })[]): string[] {
  const urls = new Map<string, string>()
  return tools.flatMap((tool) => {
    const name = toolName(tool, tool.functionName)
    const other = urls.get(name)
    if (other === undefined) urls.set(name, tool.url)
    return other === undefined ? [] : [`  ${name}: ${other} and ${tool.url}`]
  })
}
