import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { findToolchain, go, rust } from '../../plugins/toolchains.ts'
import { start } from '../support/cli-process.ts'
import { McpUser, type Result } from '../support/mcp.ts'

/*
 * Plug-ins with the dependencies and the interface of hyper-mcp's templates for Rust and Go, built here: the imports and exports
 * are those that the real PDKs make.
 */

const run = promisify(execFile)

/** Builds of Rust are kept, because they take a minute. */
const KEPT = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'wasm-serve-test-tools/hyper-rust')

const sourceOf = (folder: string) => fileURLToPath(new URL(`../support/${folder}`, import.meta.url))

/** Serves a plug-in for hyper-mcp until the test ends. */
async function serveHyper(plugin: string): Promise<McpUser> {
  const server = start([plugin, '--contract', 'hyper-mcp', '--mcp', '--port', '0'], {
    WASM_SERVE_DRAIN_MS: '0',
  })
  return new McpUser(await server.listening())
}

/** Calls a tool whose messages the client wants. */
async function callWithMessages(user: McpUser, name: string, args: object) {
  const _meta = { 'io.modelcontextprotocol/logLevel': 'info', progressToken: 'p' }
  const { events, body } = await user.modern('tools/call', { name, arguments: args, _meta })
  return { methods: events.map(({ method }) => method), result: body.result }
}

const textOf = ({ content }: Result) => content[0]?.text

const BOTH = ['notifications/message', 'notifications/progress']

testWith(
  'a plug-in in Rust',
  (await findToolchain({
    ...rust,
    probe: rust.probe.replaceAll('wasm32-unknown-unknown', 'wasm32-wasip1'),
  })) !== undefined,
  async () => {
    const target = 'wasm32-wasip1'
    const words = ['build', '--release', '--locked', '--quiet', '--target', target]
    await run('cargo', words, {
      cwd: sourceOf('hyper-rust'),
      env: { ...process.env, CARGO_TARGET_DIR: KEPT },
    })
    const user = await serveHyper(join(KEPT, target, 'release/hyper_rust.wasm'))
    const { tools } = (await user.modern('tools/list')).body.result
    expect(tools.map(({ name }) => name)).toEqual(['rust_greet', 'rust_ask'])
    const { methods, result } = await callWithMessages(user, 'rust_greet', { name: 'Ada' })
    expect([methods, textOf(result)]).toEqual([BOTH, 'Hello Ada from Rust'])
    const ask = async (more: object) => {
      const _meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: {} } }
      return (await user.modern('tools/call', { name: 'rust_ask', arguments: {}, ...more, _meta })).body
        .result
    }
    const { requestState, inputRequests } = await ask({})
    expect(inputRequests).toMatchObject({ question: { params: { message: 'Who?' } } })
    const answered = { requestState, inputResponses: { question: { action: 'accept', content: {} } } }
    expect(textOf(await ask(answered))).toBe('Hello  from Rust')
    const { body } = await user.modern('resources/read', { uri: 'rust://about' })
    expect(body.result.contents).toMatchObject([{ text: 'made in Rust' }])
  },
)

testWith('a plug-in in Go', (await findToolchain(go)) !== undefined, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-hyper-go-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const plugin = join(folder, 'hyper-go.wasm')
  const env = { ...process.env, GOOS: 'wasip1', GOARCH: 'wasm' }
  await run('go', ['build', '-buildmode=c-shared', '-o', plugin, '.'], { cwd: sourceOf('hyper-go'), env })
  const user = await serveHyper(plugin)
  const { tools } = (await user.modern('tools/list')).body.result
  expect(tools.map(({ name }) => name)).toEqual(['go_greet'])
  const { methods, result } = await callWithMessages(user, 'go_greet', { name: 'Ada' })
  expect([methods, textOf(result)]).toEqual([BOTH, 'Hello Ada from Go'])
  const failed = await user.call('go_greet')
  expect([failed.isError, textOf(failed)]).toEqual([true, 'the name is missing'])
  const { body } = await user.modern('prompts/get', { name: 'go_prompt' })
  expect(body.result.messages).toMatchObject([{ content: { text: 'made in Go' } }])
})

/** A test that is skipped by name where its toolchain is missing, as in test/system/new-builds.test.ts. */
function testWith(name: string, isHere: boolean, body: () => Promise<void>): void {
  const title = `${name} made for hyper-mcp runs unmodified`
  if (isHere) test(title, body, 600_000)
  else test.skip(`${title}: its toolchain is missing`)
}
