import { makeInterruptible } from '../module/interruptible.ts'
import { readModule } from '../module/module.ts'
import { CHECK_EXPORT } from '../module/names.ts'
import { openOwnCheck } from '../runtime/interrupts.ts'
import type { NamedModule } from './plugin.ts'

/** Compiles a module whose guests look at a {@link Deadline}, if possible. @throws `WebAssembly.CompileError` */
export async function compileWithDeadline(bytes: Uint8Array<ArrayBuffer>): Promise<WebAssembly.Module> {
  try {
    const checked = makeInterruptible(readModule(bytes, { limits: 'none' }, 'main'))
    if (checked) return await WebAssembly.compile(checked.bytes as Uint8Array<ArrayBuffer>)
  } catch {
    // It is invalid, or it exceeds a limit of V8 with the checks.
  }
  return WebAssembly.compile(bytes)
}

/** Whether {@link compileWithDeadline} has compiled a module with checks. */
export function hasDeadline({ module }: NamedModule): boolean {
  return WebAssembly.Module.exports(module).some(isCheck)
}

/** Whether an export is not the module's own. */
export function isCheck({ name }: Pick<WebAssembly.ModuleExportDescriptor, 'name'>): boolean {
  return Object.values<string>(CHECK_EXPORT).includes(name)
}

/** Messages of the SDK at a time limit. */
export const LATE = {
  call: 'EXTISM: call canceled due to timeout',
  start: 'EXTISM: timed out while waiting for plugin to instantiate',
}

/** Ends the guest of a plug-in in this thread at its time limit. The guest looks at the clock itself. */
export class Deadline {
  readonly #timeoutMs: number
  #until = Number.POSITIVE_INFINITY
  #isOver = false
  readonly #check = openOwnCheck(() => this.isOver)

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  begin(): void {
    this.#until = performance.now() + this.#timeoutMs
  }

  end(): void {
    this.#until = Number.POSITIVE_INFINITY
  }

  /** Stays true: the guest is not called again. */
  get isOver(): boolean {
    this.#isOver ||= performance.now() >= this.#until
    return this.#isOver
  }

  /** Waits for a guest that is suspended. @throws Error at the time limit. */
  async wait(returned: Promise<unknown>): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      const left = Math.max(this.#until - performance.now(), 0)
      timer = setTimeout(() => {
        this.#isOver = true // a timer may be a moment early
        reject(new Error(LATE.call))
      }, left)
    })
    try {
      return await Promise.race([returned, late])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Lets a new instance check, and runs its start function. */
  arm(exports: WebAssembly.Exports): void {
    const { [CHECK_EXPORT.table]: table, [CHECK_EXPORT.start]: start } = exports
    if (table instanceof WebAssembly.Table) table.set(0, this.#check)
    if (typeof start === 'function') start()
  }
}
