import { chooseExport } from '../module/entry-points.ts'
import type { CheckedRouteOptions } from '../options/options.ts'
import type { Plugin } from '../plugin/plugin.ts'

/** The exports of a plug-in made for hyper-mcp that call a tool: of version 2 of its interface, and of version 1. */
const HYPER_MCP_CALLS = ['call_tool', 'call'] as const

/**
 * The function of a route: the one named, that of its contract, or the only one that can be called.
 *
 * @throws the errors of {@link chooseExport}.
 */
export function routeFunction(
  { contract, function: named }: Pick<CheckedRouteOptions, 'contract' | 'function'>,
  plugin: Plugin,
): string {
  if (contract !== 'hyper-mcp' || named !== undefined) return chooseExport(plugin, named)
  const found = HYPER_MCP_CALLS.find((name) => plugin.functions.some((each) => each.name === name))
  return chooseExport(plugin, found ?? HYPER_MCP_CALLS[0])
}
