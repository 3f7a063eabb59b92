import type { Server } from './server.ts'

/** What fills the page at one address. It is made when somebody goes there, and dropped when he leaves. */
export interface View {
  readonly title: string
  readonly node: HTMLElement
  /** New numbers. */
  live?(): void
  /** Routes or plug-ins have changed. */
  changed?(): void
}

/** @param rest - What follows in the address. */
export type OpenView = (server: Server, rest: string) => View
