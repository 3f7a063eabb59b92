import type { Plugin } from '../../plugin/plugin.ts'
import type { HostFunction, HostFunctions } from '../host-functions.ts'
import { agent } from './agent.ts'
import { http } from './http.ts'
import { kv } from './kv.ts'
import {
  type CallHooks,
  type GuestService,
  type HostImport,
  type InstanceServices,
  importsFromHost,
  type OpenService,
  providesImport,
  type ServiceCall,
  type ServiceLink,
  type ServiceOptions,
  type ServiceRequest,
  type ServiceResources,
  type ServiceUse,
} from './service.ts'
import { stream } from './stream.ts'
import { vars } from './vars.ts'

/** All services for guests. What guests wait for is reported in this order. */
const SERVICES: readonly GuestService[] = [http, stream, vars, kv, agent]

/** @returns undefined if there is no such service. */
export function findService(name: string): GuestService | undefined {
  return SERVICES.find((service) => service.name === name)
}

/** Whether a service that a route is offered has a host function of this name. */
export function isServiceFunction(options: ServiceOptions, namespace: string, name: string): boolean {
  return offeredTo(options).some((service) => providesImport(service, namespace, name))
}

/** What guests on the event loop would have to wait for. */
export function reasonsToWait(use: ServiceUse): readonly string[] {
  return offeredTo(use.options).flatMap((service) => service.waitsFor(use) ?? [])
}

/** What guests use that Extism's SDK cannot do. */
export function needsOfKernel(use: ServiceUse): readonly string[] {
  return offeredTo(use.options).flatMap((service) => service.needsKernel(use) ?? [])
}

function offeredTo(options: ServiceOptions): readonly GuestService[] {
  return SERVICES.filter((service) => service.isOffered(options))
}

/** The services of a route. They live on the main thread. */
export interface OpenServices {
  /** The names of the services, for {@link connectServices}. */
  readonly names: readonly string[]

  /** Runs what a guest asks for. @returns the reply or a promise of it; undefined if no service accepts it. */
  run(request: ServiceRequest, call: ServiceCall): unknown

  /** What instances on the event loop get. @param link - For services that are reached over one even there. */
  onEventLoop(users: HostFunctions | undefined, link?: ServiceLink): GuestParts

  /** The services for the trial start of a guest: nothing of it stays. */
  forTrial(): Promise<OpenServices>

  close(): void
}

/** What the instances of a guest get. */
export interface GuestParts {
  readonly settings: Omit<InstanceServices, 'calls'>
  readonly calls: readonly CallHooks[]
}

/** Opens the services that a route's guests use. @throws the error of a service that cannot be opened. */
export async function openServices(use: ServiceUse, resources: ServiceResources): Promise<OpenServices> {
  const opened: OpenService[] = []
  try {
    for (const service of offeredTo(use.options)) {
      const open = await service.open(use, resources)
      if (open) opened.push(open)
    }
  } catch (error) {
    for (const open of opened) open.close()
    throw error
  }
  return opened.length > 0 ? servicesOf(opened, use.imports) : NO_SERVICES
}

function servicesOf(opened: readonly OpenService[], imports: readonly HostImport[]): OpenServices {
  const byName = new Map(opened.map((open) => [open.service.name, open]))
  return {
    names: [...byName.keys()],
    run: ({ service, operation, args }, call) => byName.get(service)?.run(operation, args, call),
    onEventLoop(users, link) {
      const parts = opened.map(({ service, direct }) => direct ?? (link ? service.connect(link) : {}))
      return combine(users, imports, parts)
    },
    async forTrial() {
      const tried = await Promise.all(opened.map((open) => open.forTrial()))
      return servicesOf(
        tried.filter((open) => open !== undefined),
        imports,
      )
    },
    close() {
      for (const open of opened) open.close()
    },
  }
}

const NO_SERVICES = servicesOf([], [])

/**
 * What instances get that reach their services over a link.
 *
 * @param names - See {@link OpenServices}.
 * @param users - The user's host functions, which take precedence.
 */
export function connectServices(
  names: readonly string[],
  plugin: Pick<Plugin, 'imports' | 'linked'>,
  users: HostFunctions | undefined,
  link: ServiceLink,
): GuestParts {
  const connected = SERVICES.filter(({ name }) => names.includes(name))
  return combine(
    users,
    importsFromHost(plugin, users),
    connected.map((service) => service.connect(link)),
  )
}

/** Only the functions that are imported: a module of the plug-in may have the name of their namespace. */
function combine(
  users: HostFunctions | undefined,
  imports: readonly HostImport[],
  parts: readonly InstanceServices[],
): GuestParts {
  let functions = users
  for (const part of parts) {
    for (const { module, name } of imports) {
      const found = ownFunction(part.functions, module, name)
      if (found) functions = { ...functions, [module]: { ...functions?.[module], [name]: found } }
    }
  }
  const http = parts.find((part) => part.http)?.http
  const vars = parts.find((part) => part.vars)?.vars
  return {
    settings: { functions, ...(http && { http }), ...(vars && { vars }) },
    calls: parts.flatMap(({ calls }) => calls ?? []),
  }
}

function ownFunction(
  functions: HostFunctions | undefined,
  namespace: string,
  name: string,
): HostFunction | undefined {
  const members = functions && Object.hasOwn(functions, namespace) ? functions[namespace] : undefined
  return members && Object.hasOwn(members, name) ? members[name] : undefined
}
