import type { FastifyBaseLogger } from 'fastify'
import { isPortable } from '../options/tool-name.ts'
import { type GuestListKind, type GuestServer, nameIn } from './guest-server.ts'
import { firstOfEachName } from './same-names.ts'
import type { Tool } from './tool.ts'
import { ROUTE } from './tool-box.ts'
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
  const lists = await Promise.all(
    asked.map(async ({ guest }) => ({ owner: guest.plugin, ...(await guest.review(log)) })),
  )
  for (const kind of GUEST_LISTS) {
    const owned = lists.flatMap(({ owner, others }) =>
      (others[kind] ?? []).map((entry) => ({ owner, name: nameIn(entry, kind), entry })),
    )
    firstOfEachName(kind, owned, notes, log)
  }
  const owned = [{ owner: ROUTE, tools }, ...lists].flatMap(({ owner, tools }) =>
    tools.map((entry) => ({ owner, name: entry.name, entry })),
  )
  const all = firstOfEachName('tools', owned, notes, log)
  const undescribed = namesOf(all.filter(({ isDescribed }) => !isDescribed))
  if (undescribed !== undefined) {
    const message = `Tools without a description, by which models choose: ${undescribed}. Set tool.description`
    notes.warn(log, {}, message)
  }
  const unportable = namesOf(all.filter(({ name }) => !isPortable(name)))
  if (unportable !== undefined) {
    const problem =
      'Some clients refuse all tools of a server if a name has a dot, or more than 64 characters'
    notes.warn(log, {}, `${problem}: ${unportable}. Set tool.name`)
  }
}

const GUEST_LISTS: readonly GuestListKind[] = ['prompts', 'resources', 'resourceTemplates']

/** undefined: there are none. */
function namesOf(tools: readonly Tool[]): string | undefined {
  if (tools.length === 0) return undefined
  const others = tools.length > MAX_NAMES ? ` and ${tools.length - MAX_NAMES} more` : ''
  const names = tools.slice(0, MAX_NAMES).map(({ name }) => name)
  return names.join(', ') + others
}
