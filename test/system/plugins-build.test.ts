import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import loadWabt from 'wabt'
import { isCommitted, plugins, scriptEngine, wasmPath } from '../../plugins/plugins.ts'

const folder = (name = '') => fileURLToPath(new URL(`../../plugins/${name}`, import.meta.url))

test('each folder of plug-ins is on the list, and in the README', () => {
  const folders = readdirSync(folder()).filter((name) => existsSync(folder(`${name}/build.sh`)))
  expect([...plugins, scriptEngine].map((plugin) => plugin.folder).sort()).toEqual(folders.sort())
  const readme = readFileSync(folder('README.md'), 'utf8')
  expect(folders.filter((name) => !readme.includes(`(${name}/build.sh)`))).toEqual([])
})

test('what is committed is small, and the README tells its size', () => {
  const readme = readFileSync(folder('README.md'), 'utf8')
  for (const plugin of plugins.filter(isCommitted)) {
    const { size } = statSync(wasmPath(plugin))
    expect(size).toBeLessThanOrEqual(300_000)
    const row = readme.split('\n').find((line) => line.includes(`(${plugin.folder}/build.sh)`))
    expect(row).toContain(` ${size.toLocaleString('en-US')} |`)
  }
})

test('hello-wat is what its text assembles to', async () => {
  const wabt = await loadWabt()
  // wabt takes the low byte of each character: so its characters are the bytes of the text.
  const module = wabt.parseWat('hello.wat', readFileSync(folder('hello-wat/hello.wat'), 'latin1'))
  const { buffer } = module.toBinary({})
  expect(Buffer.compare(buffer, readFileSync(folder('hello-wat/hello.wasm')))).toBe(0)
})

test('where no toolchain is, the build says of each how to get it, and changes nothing', async () => {
  const path = mkdtempSync(join(tmpdir(), 'wasm-serve-path-'))
  onTestFinished(() => rmSync(path, { recursive: true }))
  symlinkSync('/bin/bash', join(path, 'bash'))
  const { stdout } = await runBuild({ PATH: path })
  const toolchains = [...new Set(plugins.map(({ toolchain }) => toolchain))]
  const lines = toolchains.map((toolchain) => {
    const folders = plugins.filter((plugin) => plugin.toolchain === toolchain).map((plugin) => plugin.folder)
    return { toolchain, start: `${toolchain.name} is missing, for ${folders[0]} (` }
  })
  const said = stdout.trim().split('\n')
  for (const { toolchain, start } of lines) {
    expect(
      said.filter((line) => line.startsWith(start) && line.endsWith(`Get it: ${toolchain.get}`)),
    ).toHaveLength(1)
  }
  expect(said).toHaveLength(toolchains.length)
})

test('the build refuses a plug-in that is none', async () => {
  await expect(runBuild({}, 'hello-cobol')).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/hello-cobol.*hello-zig/),
  })
})

function runBuild(env: NodeJS.ProcessEnv, ...args: string[]): Promise<{ stdout: string }> {
  const script = [fileURLToPath(import.meta.resolve('tsx/cli')), folder('build.ts'), ...args]
  return promisify(execFile)(process.execPath, script, { env: { ...process.env, ...env } })
}
