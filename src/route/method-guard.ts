import type { FastifyInstance, onRequestHookHandler } from 'fastify'
import { MethodNotAllowedError } from '../errors/errors.ts'
import { constraintsOf } from '../options/routes-table.ts'
import { Pace } from '../platform/paced.ts'

/** Where routes are; several may be at one place. */
interface Place {
  readonly url: string
  readonly host?: string | undefined
}

/**
 * Answers, where routes are, the methods that none of them answers: 405, with those that one does in `Allow`. To be
 * called after the routes were added: what is there is looked up, the app's own routes among it.
 */
export async function addMethodGuards(app: FastifyInstance, places: readonly Place[]): Promise<void> {
  const exact = places.flatMap(({ url, host }) => expand(url).map((path) => ({ url: path, host })))
  const pace = new Pace(() => app.after()) // what Fastify has put off
  const guards: (Place & { readonly allowed: string[] })[] = []
  for (const place of exact) {
    guards.push({ ...place, allowed: allowedAt(app, place) })
    await pace.step()
  }
  for (const { url, host, allowed } of guards) {
    const others = app.supportedMethods.filter(
      (method) => !allowed.includes(method) && !isAnswered(app, method, url, host),
    )
    if (others.length > 0) addGuard(app, { url, host }, others, allowed)
    await pace.step()
  }
}

/** A last parameter that may be left out makes two URLs of one. (find-my-way) */
function expand(url: string): string[] {
  const [parameter, name, slash] = /(\/:[^/()]*?)\?(\/?)/.exec(url) ?? []
  if (parameter === undefined) return [url]
  return [url.replace(parameter, `${name}${slash}`), url.replace(parameter, `${slash}`) || '/']
}

/** A route without a host answers there too. */
function allowedAt(app: FastifyInstance, { url, host }: Place): string[] {
  return app.supportedMethods
    .filter((method) => isAnswered(app, method, url, host) || isAnswered(app, method, url, undefined))
    .sort()
}

function isAnswered(app: FastifyInstance, method: string, url: string, host: string | undefined): boolean {
  const { prefix } = app
  const paths = url === '/' && prefix !== '' ? [prefix, `${prefix}/`] : [prefix.replace(/\/$/, '') + url]
  return paths.some((path) => app.hasRoute({ method, url: path, constraints: constraintsOf(host) }))
}

function addGuard(app: FastifyInstance, { url, host }: Place, methods: string[], allowed: string[]): void {
  const allow = allowed.join(', ')
  const refuse: onRequestHookHandler = ({ method }, reply, done) => {
    reply.header('allow', allow)
    done(new MethodNotAllowedError(method, allow))
  }
  app.route({
    method: methods,
    url,
    constraints: constraintsOf(host),
    exposeHeadRoute: false,
    onRequest: refuse, // before a body is read
    handler: () => undefined, // never comes to it
  })
}
