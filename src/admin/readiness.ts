import { watchdogTrouble } from '../engine/watchdog.ts'
import type { ServerView } from './feature.ts'

/** Why the server should get no requests now, in words; nothing: it is ready. */
export function whyNotReady({ state, routes }: ServerView): string[] {
  if (state === 'starting') return ['the routes are being loaded']
  if (state === 'draining') return ['the server is ending']
  const watchdog = watchdogTrouble()
  return [
    ...(watchdog === undefined ? [] : [watchdog]),
    ...routes.flatMap(({ url, host = '', trouble }) =>
      trouble === undefined ? [] : [`route ${host}${url}: ${trouble}`],
    ),
  ]
}
