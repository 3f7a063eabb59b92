import { useEffect, useState } from 'preact/hooks'
import { AdminApiError, type ListPage, type ShownRoute } from './admin-api.ts'
import { type LiveServer, MAX_WATCHED } from './live-server.ts'

/* What views read of the server besides the counts. */

/**
 * A resource of the admin API, read when the view appears and then with each poll.
 *
 * @param every - 2: with every second poll.
 * @returns undefined before the first answer. After a failure, the last answer; the page shows the error.
 */
export function usePolled<Resource>(server: LiveServer, path: string, every: number): Resource | undefined {
  const [resource, setResource] = useState<Resource>()
  useEffect(() => {
    server.api.get<Resource>(path).then(setResource, (error) => {
      if (!(error instanceof AdminApiError)) throw error
    })
  }, [server, path, Math.floor(server.polls / every)])
  return resource
}

/**
 * A plug-in or a route, read again when plug-ins or routes have changed.
 *
 * @param path - undefined: none.
 * @returns null if it does not exist; undefined before the answer.
 */
export function useResource<Resource>(
  server: LiveServer,
  path: string | undefined,
): Resource | null | undefined {
  const answer = useFollowed(server, path, (asked) =>
    server.api.get<Resource>(asked).catch((error) => {
      if (error instanceof AdminApiError && error.status === 404) return null
      throw error
    }),
  )
  return answer?.path === path ? answer?.body : undefined
}

/**
 * A page of a list, read again when plug-ins or routes have changed.
 *
 * @param again - Another value reads the page again.
 * @returns undefined before the first answer. Another path leaves the last answer until the next one.
 */
export function usePage<Item>(server: LiveServer, path: string, again?: unknown): ListPage<Item> | undefined {
  return useFollowed(server, path, (asked) => server.api.getPage<Item>(asked), again)?.body
}

/** Polls the counts of these routes while the view is shown. */
export function useWatched(server: LiveServer, routes: readonly ShownRoute[]): void {
  const ids = routes.slice(0, MAX_WATCHED).map(({ id }) => id)
  useEffect(() => {
    server.watch(ids)
    return () => server.watch([])
  }, [server, ids.join()])
}

interface Followed<Body> {
  readonly path: string
  readonly body: Body
}

/**
 * What `get` returns of a path, read again when plug-ins or routes have changed.
 *
 * @param path - undefined: nothing is read.
 * @param again - Another value reads it again.
 * @returns the last answer, which may be of the path before; undefined before the first.
 */
export function useFollowed<Body>(
  server: LiveServer,
  path: string | undefined,
  get: (path: string) => Promise<Body>,
  again?: unknown,
): Followed<Body> | undefined {
  const [answer, setAnswer] = useState<Followed<Body>>()
  useEffect(() => {
    if (path === undefined) return undefined
    let isShown = true
    const end = server.follow(async () => {
      const body = await get(path)
      if (isShown) setAnswer({ path, body })
    })
    return () => {
      isShown = false
      end()
    }
  }, [server, path, again])
  return answer
}

/** How long a search waits for the next key, in milliseconds. */
const TYPING_MS = 200

/** A text that follows another one when that has not changed for a moment. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}
