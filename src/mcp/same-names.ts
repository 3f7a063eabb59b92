import type { FastifyBaseLogger } from 'fastify'
import type { ListKind } from './guest-server.ts'
import type { ToolNotes } from './tool-notes.ts'

/** An entry of a list with its name, which may be a URI, and who has it: the plug-in, or a route. */
export interface OwnedEntry<Entry> {
  readonly owner: string
  readonly name: string
  readonly entry: Entry
}

/** What a client cannot do with an entry whose name another one has, and what helps. */
const ADVICE: Readonly<Record<ListKind, readonly [what: string, done: string, advice: string]>> = {
  tools: ['tool', 'called', '. Set tool.prefix or tool.name'],
  prompts: ['prompt', 'used', '. Set tool.prefix'],
  resources: ['resource', 'read', ''],
  resourceTemplates: ['resource template', 'used', ''],
}

/** The entries of a list that clients can reach. Of equal names the first one counts, and the log names the others once. */
export function firstOfEachName<Entry>(
  kind: ListKind,
  all: Iterable<OwnedEntry<Entry>>,
  notes: ToolNotes,
  log: FastifyBaseLogger,
): Entry[] {
  const owners = new Map<string, string>()
  const first: Entry[] = []
  const [what, done, advice] = ADVICE[kind]
  for (const { owner, name, entry } of all) {
    const other = owners.get(name)
    if (other === undefined) {
      owners.set(name, owner)
      first.push(entry)
    } else {
      const message = `The ${what} ${name} of ${owner} cannot be ${done}: ${other} has one of that name${advice}`
      notes.warn(log, { [kind === 'tools' ? 'tool' : 'entry']: name, plugin: owner }, message)
    }
  }
  return first
}
