import type { ServedRoute } from '../options/served-route.ts'
import type { Control } from './api/control.ts'

/** What runs, as the rooms of the admin listener see it. It is read at each request: what it tells changes. */
export interface Served {
  /** `starting` until the public listener is there, `draining` from the moment that the server is to end. */
  readonly state: 'starting' | 'serving' | 'draining'
  /** Where clients reach the routes: `http://127.0.0.1:8080`, `unix:/run/plugins.sock`. Undefined while it starts. */
  readonly url: string | undefined
  /** What answers at present; none while it starts. */
  readonly routes: readonly ServedRoute[]
  /** What changes it; undefined while it starts. */
  readonly control?: Control | undefined
}
