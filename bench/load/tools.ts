import { autocannon } from './autocannon.ts'
import { hey } from './hey.ts'
import type { LoadTool } from './load.ts'
import { wrk } from './wrk.ts'

const TOOLS: readonly LoadTool[] = [autocannon, wrk, hey]

/** @throws when there is none of that name. */
export function findTool(name: string): LoadTool {
  const tool = TOOLS.find((tool) => tool.name === name)
  if (tool) return tool
  throw new Error(`--tool: must be one of ${TOOLS.map((tool) => tool.name).join(', ')}, not "${name}"`)
}
