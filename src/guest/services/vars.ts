import { type Vars, VarsFull } from '../vars.ts'
import { defineService, type Operation } from './define-service.ts'

interface Operations {
  readonly get: Operation<[name: string], Uint8Array | undefined>
  /** Replies with the limit if there is no room: errors lose their class between threads. */
  readonly set: Operation<[name: string, value: Uint8Array], number | undefined>
  readonly delete: Operation<[name: string], undefined>
}

/** Variables that all instances of a plug-in share. Those of one instance need no service. */
export const vars = defineService<Operations, Vars>({
  name: 'vars',
  operations: { get: ['text'], set: ['text', 'bytes'], delete: ['text'] },
  isOffered: ({ vars }) => vars === 'shared',
  needsKernel: () => 'shared variables',
  open({ plugin, options: { varMax } }, resources) {
    const shared = resources.vars.open(plugin, varMax)
    return {
      direct: shared.vars,
      run: (operation, args) => runOn(shared.vars, operation, args),
      close: () => shared.close(),
    }
  },
  clientOf: ({ ask }) => ({
    get: (name) => ask.get(undefined, name),
    set(name, value) {
      const limit = ask.set(undefined, name, new Uint8Array(value)) // a copy without the rest of the buffer
      if (limit !== undefined) throw new VarsFull(limit)
    },
    delete: (name) => ask.delete(undefined, name),
  }),
  serve: (client) => ({ vars: client }),
})

function runOn(shared: Vars, operation: keyof Operations, [name, value]: [string, Uint8Array?]): unknown {
  switch (operation) {
    case 'get':
      return shared.get(name)
    case 'set':
      return value && limitOf(() => shared.set(name, value))
    case 'delete':
      return shared.delete(name)
  }
}

/** The limit that a change exceeds. */
function limitOf(change: () => void): number | undefined {
  try {
    change()
    return undefined
  } catch (error) {
    if (error instanceof VarsFull) return error.limit
    throw error
  }
}
