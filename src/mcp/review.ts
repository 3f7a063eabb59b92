import type { FastifyBaseLogger } from 'fastify'
import type { GuestServer } from './guest-server.ts'
import type { Tool } from './tool.ts'
import type { ToolNotes } from './tool-notes.ts'

/** Names that a warning lists. */
const MAX_NAMES = 10

/** What is reviewed. */
interface Reviewed {
  /** Tools of routes. */
  readonly tools: readonly Tool[]
  /** Plug-ins that describe their tools themselves. */
  readonly guests: readonly {
    readonly guest: GuestServer
    /** Identifies the plug-in and its options. */
    readonly version: string
  }[]
  /** Descriptions that are known to be of no use. */
  readonly problems: readonly string[]
}

/**
 * Looks for tools that models cannot use well, and for descriptions that cannot be used, and warns of them. Plug-ins that describe their
 * tools themselves are asked once, as a client would ask them.
 */
export async function reviewTools(
  { tools, guests, problems }: Reviewed,
  notes: ToolNotes,
  log: FastifyBaseLogger,
): Promise<void> {
  for (const problem of problems) notes.warn(log, {}, problem)
  const asked = guests.filter(({ version }) => notes.isNew(version))
  const lists = await Promise.all(asked.map(({ guest }) => guest.review(log)))
  const names = [...tools, ...lists.flat()].filter(({ isDescribed }) => !isDescribed).map(({ name }) => name)
  if (names.length === 0) return
  const others = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : ''
  const message = `Tools without a description, by which models choose: ${names.slice(0, MAX_NAMES).join(', ')}${others}. Set tool.description`
  notes.warn(log, {}, message)
}
