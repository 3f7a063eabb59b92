import { readSync, writeSync } from 'node:fs'
import { type Suspending, suspending } from '../platform/missing-types.ts'
import { EmptyInput, LineBuffer, LineOutput } from '../runtime/wasi/standard-streams.ts'
import { openWasi, ProcExit, type Wasi } from '../runtime/wasi/wasi.ts'
import { GuestContext, type ImportedFunction } from './guest-context.ts'
import { type LinkedModules, linkNamedModules } from './link.ts'
import { EXTISM_ENV, type GuestOptions, type NamedModule } from './plugin.ts'

/** How an instance is made. */
export interface InstanceRequest {
  readonly modules: readonly NamedModule[]
  readonly options: Pick<GuestOptions, 'useWasi' | 'enableWasiOutput' | 'allowedPaths'>
  readonly context: GuestContext
  /** By namespace and name; they win over Extism's own. */
  readonly functions: Readonly<Record<string, Readonly<Record<string, WebAssembly.ImportValue>>>>
  /** How the guest waits for them; undefined if it need not. */
  readonly suspending: Suspending | undefined
}

/** The modules of a plug-in, ready to be called. */
export class GuestInstance {
  readonly instance: WebAssembly.Instance
  readonly #linked: LinkedModules
  readonly #suspending: Suspending | undefined
  readonly #functions = new Map<string, () => unknown>()

  constructor({ modules, options, context, functions, suspending }: InstanceRequest) {
    const { useWasi, enableWasiOutput, allowedPaths } = options
    const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {
      env: {},
      [EXTISM_ENV]: GuestContext.importsOf(context),
    }
    for (const [namespace, members] of Object.entries(functions))
      imports[namespace] = { ...imports[namespace], ...members }
    this.#linked = linkNamedModules({
      modules,
      imports,
      openWasi: useWasi ? () => openGuestWasi(allowedPaths, enableWasiOutput) : undefined,
    })
    this.instance = this.#linked.instance
    this.#suspending = suspending
  }

  /** What calls a function of the main module. @throws Error if there is none. */
  function(name: string): () => unknown {
    return this.#functions.get(name) ?? this.#find(name)
  }

  close(): void {
    for (const wasi of this.#linked.wasis) wasi.close()
  }

  #find(name: string): () => unknown {
    const found = this.instance.exports[name]
    if (found === undefined) throw new Error(`Plugin error: function "${name}" does not exist`)
    if (typeof found !== 'function') throw new Error(`Plugin error: export "${name}" is not a function`)
    const guest = found as () => unknown
    const run = this.#suspending ? this.#suspending.promising(guest) : guest
    this.#functions.set(name, run)
    return run
  }
}

/**
 * Functions of the user as imports.
 *
 * @throws TypeError if one is async, and V8 cannot wait for it.
 */
export function hostImports(
  context: GuestContext,
  functions: Readonly<Record<string, Readonly<Record<string, ImportedFunction>>>>,
): Pick<InstanceRequest, 'functions' | 'suspending'> {
  let isAsync = false
  const imports = mapMembers(functions, (run, label) => {
    if (typeof run !== 'function') throw new TypeError(`host function ${label} is not a function`)
    const imported = (...args: unknown[]) => GuestContext.run(context, run, args)
    if (run.constructor !== AsyncFunction) return imported
    isAsync = true
    if (suspending) return new suspending.Suspending(imported)
    throw new TypeError(
      'This platform does not support async function imports on the main thread; consider using `runInWorker`.',
    )
  })
  return { functions: imports, suspending: isAsync ? suspending : undefined }
}

/** Also of what was bound, which is no async function to Node. */
const AsyncFunction = (async () => undefined).constructor

/** Each function of each namespace, made to something else. */
export function mapMembers<From, To>(
  functions: Readonly<Record<string, Readonly<Record<string, From>>>>,
  make: (member: From, label: string, namespace: string, name: string) => To,
): Record<string, Record<string, To>> {
  return Object.fromEntries(
    Object.entries(functions).map(([namespace, members]) => [
      namespace,
      Object.fromEntries(
        Object.entries(members ?? {}).map(([name, member]) => [
          name,
          make(member, `"${namespace}" "${name}"`, namespace, name),
        ]),
      ),
    ]),
  )
}

/** A program that ends itself with status 0 has done what it was called for. */
export function isGoodExit(thrown: unknown): boolean {
  return thrown instanceof ProcExit && thrown.code === 0
}

function openGuestWasi(allowedPaths: Readonly<Record<string, string>>, isOpen: boolean): Wasi {
  return openWasi({
    allowedPaths: Object.entries(allowedPaths).map(([guest, host]) => ({ guest, host, readOnly: false })),
    streams: isOpen
      ? { input: new ProcessInput(), output: new ProcessOutput(1), error: new ProcessOutput(2) }
      : undefined,
    writeLine: () => undefined,
  })
}

class ProcessInput extends EmptyInput {
  override read(bytes: Buffer, start: number, end: number): number {
    try {
      return readSync(0, bytes, start, end - start, null)
    } catch {
      return 0 // closed, or a terminal without a line: the guest finds its end
    }
  }
}

class ProcessOutput extends LineOutput {
  readonly #fd: number

  constructor(fd: number) {
    super(new LineBuffer(() => undefined))
    this.#fd = fd
  }

  override write(bytes: Buffer, start: number, end: number): number {
    try {
      return writeSync(this.#fd, bytes, start, end - start)
    } catch {
      return end - start // closed, or a pipe that is full: what a guest prints stops nobody
    }
  }
}
