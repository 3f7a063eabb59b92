import type { FastifyBaseLogger } from 'fastify'
import { printable } from '../platform/text.ts'

/** Notes that are remembered: plug-ins choose the names in them. */
const MAX_NOTES = 1_000

/** Warnings about what plug-ins say of their tools. Lists are read again and again: each warning is logged once. */
export class ToolNotes {
  readonly #noted = new Set<string>()
  readonly #reviewed = new Set<string>()

  warn(log: Pick<FastifyBaseLogger, 'warn'>, fields: object, message: string): void {
    const note = JSON.stringify([fields, message])
    if (this.#noted.has(note) || this.#noted.size >= MAX_NOTES) return
    this.#noted.add(note)
    log.warn(fields, printable(message))
  }

  /** Whether something is reviewed for the first time. @param key - Identifies it, with its version. */
  isNew(key: string): boolean {
    return !this.#reviewed.has(key) && this.#reviewed.add(key) !== undefined
  }
}
