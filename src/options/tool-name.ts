import { trimEnds } from '../platform/text.ts'

/** Maximum characters of a tool's name. (MCP) */
const MAX_NAME = 128

/**
 * The name of a route as a tool: its option, else its URL: `/text/upper` is `text_upper`. A route at `/` has the name of
 * its function.
 */
export function toolName({ tool, url }: NamedTool, functionName: string): string {
  if (tool?.name !== undefined) return tool.name
  return nameFrom(url) || nameFrom(functionName) || 'tool'
}

/** Clients accept letters, digits, `_`, `-` and `.` only. */
function nameFrom(text: string): string {
  return trimEnds(text.replaceAll(/[^A-Za-z0-9_.-]+/g, '_'), '_').slice(0, MAX_NAME)
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
