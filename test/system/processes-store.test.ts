import { expect, onTestFinished, test } from 'vitest'
import { type Api, startApi, temporaryFolder } from '../support/admin-api.ts'
import { start } from '../support/cli-process.ts'
import { openProxy } from '../support/fleet/tcp-proxy.ts'
import { file, guest } from '../support/guest.ts'
import { kvGuest } from '../support/kv-guest.ts'
import { childrenOf, linesOf, until } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { describeWith } from '../support/tools.ts'

/** The first answer of a guest that reaches the store. */
async function whenAnswered(server: Api, path: string, body: string): Promise<string> {
  for (;;) {
    const [status, answer] = await server.post(path, body)
    if (status === 200) return answer
  }
}

describeWith(['redis-server'], () =>
  test('a process that is lost while the store cannot be reached is replaced, and finds the store when it is back', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const proxy = await openProxy(redis.port)
    onTestFinished(() => proxy.close())
    const kv = file('kv.wasm', kvGuest('get', 'set'))
    const flags = ['--processes', '2', '--store', `redis://127.0.0.1:${proxy.port}`, '--grace-ms', '1000']
    const server = await startApi(start, [kv, guest('echo'), ...flags], temporaryFolder())
    const lost = childrenOf(server.child.pid ?? 0)
    proxy.cut()
    for (const pid of lost) process.kill(pid, 'SIGKILL')
    await until(() => linesOf(server, 'a serving process was started').length === 2)
    expect(linesOf(server, 'a serving process could not be started')).toEqual([])
    expect(await server.post('/echo', 'abc')).toEqual([200, 'abc'])
    expect((await server.post('/kv/set', 'key-0001value'))[0]).not.toBe(200)

    proxy.heal()
    expect(await whenAnswered(server, '/kv/set', 'key-0001value')).toBe('')
    expect(await whenAnswered(server, '/kv/get', 'key-0001')).toBe('value')
  }),
)
