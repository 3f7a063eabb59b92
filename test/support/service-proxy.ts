import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiObject, ControlPlane } from './control-plane.ts'
import { loopbackOf } from './node-agent.ts'

/** Does for a service what kube-proxy or a load balancer does. */
export interface ServiceProxy {
  readonly url: string
  /** The number of pods that get new connections. */
  ready(): number
  /** The address of the pod with the most connections. */
  busiest(): string | undefined
  stop(): Promise<void>
}

/** A change reaches the nodes of a cluster later than the pod that ends: this late here. */
const LAG_MS = 1_000

/**
 * Listens for a service: each new connection goes to a pod that the service's endpoints name as ready, and stays
 * with it.
 */
export async function openServiceProxy(
  plane: ControlPlane,
  namespace: string,
  service: string,
): Promise<ServiceProxy> {
  let endpoints: readonly { host: string; port: number }[] = []
  let next = 0
  let isEnded = false
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true, pauseOnConnect: true }, async (client) => {
    let pod: Socket | undefined
    // A reset of one side becomes a reset of the other, and is no error of the proxy.
    client.on('error', () => pod?.resetAndDestroy())
    pod = await reach(next++)
    if (!pod || client.destroyed) {
      pod?.destroy()
      client.destroy()
      return
    }
    for (const socket of [client, pod]) {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
    }
    pod.on('error', () => client.resetAndDestroy())
    client.pipe(pod).pipe(client)
  }).listen(0, '127.0.0.1')
  /** Connects to a pod. One that refuses is passed over, as load balancers do: nothing was sent to it. Each is tried once. */
  const reach = async (first: number, tries = endpoints.length): Promise<Socket | undefined> => {
    const target = endpoints[first % endpoints.length]
    if (!target || tries === 0) return undefined
    const pod = connect({ ...target, noDelay: true })
    try {
      await once(pod, 'connect')
      return pod
    } catch {
      return reach(first + 1, tries - 1)
    }
  }
  await once(server, 'listening')
  const address = server.address()

  const selector = `labelSelector=kubernetes.io/service-name%3D${service}`
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices?${selector}`
  const follow = async () => {
    while (!isEnded) {
      const { body } = await plane.ask('GET', path)
      const found = (body.items ?? []).flatMap(endpointsOf)
      setTimeout(() => {
        endpoints = found
      }, LAG_MS)
      await sleep(100)
    }
  }
  const following = follow()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    ready: () => endpoints.length,
    busiest() {
      const counts = new Map<string, number>()
      for (const { remoteAddress = '' } of sockets)
        if (remoteAddress.startsWith('127.77.'))
          counts.set(remoteAddress, (counts.get(remoteAddress) ?? 0) + 1)
      return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0]
    },
    async stop() {
      isEnded = true
      for (const socket of sockets) socket.destroy()
      server.close()
      await following
    },
  }
}

function endpointsOf({ endpoints, ports }: ApiObject): { host: string; port: number }[] {
  return (endpoints ?? [])
    .filter(({ conditions }: ApiObject) => conditions.ready)
    .map(({ addresses }: ApiObject) => ({ host: loopbackOf(addresses[0]), port: ports[0].port }))
}
