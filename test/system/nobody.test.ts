import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type ProcessInputs, run, start } from '../support/cli-process.ts'
import { guest } from '../support/guest.ts'
import { jail, NODE_FOLDER } from '../support/jail.ts'
import { describeWith } from '../support/tools.ts'
import { ROOT } from '../support/user-package.ts'

const NOBODY = 65_534
const echo = guest('echo')
chmodSync(dirname(echo), 0o755)

/** The command as `nobody`, with a read-only root in which there is the package, the guests and what is named. */
function asNobody(binds: Readonly<Record<string, string>> = {}): ProcessInputs {
  const package_ = { [ROOT]: ROOT.replace(/\/$/, ''), [dirname(echo)]: dirname(echo) }
  return { cwd: '/', program: [...jail({ ...package_, ...binds }), `${NODE_FOLDER}/node`] }
}

async function post(url: string, body: string): Promise<[status: number, body: string]> {
  const answer = await fetch(url, { method: 'POST', body })
  return [answer.status, await answer.text()]
}

describeWith(['mounts'], () => {
  test('the command serves as nobody, without capabilities, on a read-only root', async () => {
    const server = start([echo, '0', '--admin', '0'], {}, asNobody())
    expect(await post(await server.listening(), 'hi')).toEqual([200, 'hi'])
    const [, admin] = /admin listener is on (\S+),/.exec(server.stderr()) ?? []
    expect((await fetch(`${admin}/healthz`)).status).toBe(200)

    const { pid } = server.child
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    expect(status).toMatch(new RegExp(`^Uid:${`\\s${NOBODY}`.repeat(4)}$`, 'm'))
    expect(status).toMatch(/^CapEff:\s0+$/m)
    expect(status).toMatch(/^CapBnd:\s0+$/m)
    expect(status).toMatch(/^NoNewPrivs:\s1$/m)
    const mounts = readFileSync(`/proc/${pid}/mounts`, 'utf8').split('\n')
    expect(mounts.filter((line) => line.split(' ')[1] === '/')).toEqual([expect.stringMatching(/ tmpfs ro,/)])

    server.child.kill('SIGTERM')
    expect(await server.ended).toMatchObject({ code: 0, signal: null })
  })

  test('as nobody a deadline ends a guest, and the watchdog a process', async () => {
    const loop = guest('loop')
    const limited = start([loop, '0', '--timeout', '100'], {}, asNobody())
    expect((await post(await limited.listening(), ''))[0]).toBe(504)
    const watched = start([loop, '0', '--stall-ms', '300'], {}, asNobody())
    await expect(post(await watched.listening(), '')).rejects.toThrow()
    expect((await watched.ended).signal).toBe('SIGKILL')
  })

  test('as nobody a store needs a folder that can be written, and nothing else does', async () => {
    const state = mkdtempSync(join(tmpdir(), 'wasm-serve-state-'))
    onTestFinished(() => rmSync(state, { recursive: true }))
    const flags = [join(ROOT, 'plugins/visits/visits.wasm'), '0', '--store', 'lmdb:/state']
    const refused = await run(flags, {}, asNobody({ [state]: '/state' }))
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('lmdb:/state cannot be used')])

    chownSync(state, NOBODY, NOBODY)
    const url = await start(flags, {}, asNobody({ [state]: '/state:rw' })).listening()
    expect(await post(url, 'Bob')).toEqual([200, 'Bob: 1\n'])
  })
})
