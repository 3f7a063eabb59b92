import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, onTestFinished, test } from 'vitest'
import { findToolchain, rust } from '../../plugins/toolchains.ts'
import { CLI } from '../support/cli-process.ts'
import { blocksOf } from '../support/pages.ts'

/* The tool in Rust of docs/write/tools-for-agents.md, and one with the contract `http`, ask the official client, of both eras. */

const run = promisify(execFile)

const TARGET = 'wasm32-wasip1'

/** Builds of Rust are kept, because they take a minute. */
const KEPT = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'wasm-serve-test-tools/mcp-page')

const fromPage = blocksOf('docs/write/tools-for-agents.md').find(({ language }) => language === 'rust')?.code

const withHttp = `
use extism_pdk::*;
use serde_json::{json, Value};

#[host_fn]
extern "ExtismHost" {
    fn create_elicitation(question: String) -> String;
}

#[plugin_fn]
pub fn erase(Json(request): Json<Value>) -> FnResult<Json<Value>> {
    let name = &request["params"]["name"]; // of the URL /files/:name
    let schema = json!({ "type": "object", "properties": {} });
    let question = json!({ "message": format!("Delete {name}?"), "requestedSchema": schema });
    let answer: Value = serde_json::from_str(&unsafe { create_elicitation(question.to_string())? })?;
    Ok(Json(if answer["action"] == "accept" {
        json!({ "body": { "deleted": name } })
    } else {
        json!({ "status": 409, "body": "Nothing is deleted" })
    }))
}
`

const toolchain = await findToolchain({
  ...rust,
  probe: rust.probe.replaceAll('wasm32-unknown-unknown', TARGET),
})

/** Builds a snippet with the dependencies of another plug-in. */
async function build(code: string, folder: string, name: string): Promise<void> {
  const project = join(folder, name)
  cpSync(fileURLToPath(new URL('../support/hyper-rust', import.meta.url)), project, { recursive: true })
  writeFileSync(join(project, 'src/lib.rs'), code)
  const env = { ...process.env, CARGO_TARGET_DIR: KEPT }
  await run('cargo', ['build', '--release', '--locked', '--quiet', '--target', TARGET], { cwd: project, env })
  cpSync(join(KEPT, TARGET, 'release/hyper_rust.wasm'), join(folder, `${name}.wasm`))
}

test.skipIf(toolchain === undefined)(
  'the example of a tool that asks does so, and one with the contract http',
  async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'wasm-serve-mcp-page-'))
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
    await build(fromPage ?? '', cwd, 'raw')
    await build(withHttp, cwd, 'http')
    const inputSchema = { type: 'object', properties: { name: { type: 'string' } } }
    const routes = [
      { url: '/erase', plugin: 'raw.wasm' },
      {
        ...{ url: '/files/:name', method: 'DELETE', plugin: 'http.wasm', contract: 'http' },
        tool: { enabled: true, name: 'erase_file', inputSchema },
      },
    ]
    writeFileSync(join(cwd, 'wasm-serve.json'), JSON.stringify({ mcp: {}, routes }))
    for (const mode of ['auto', 'legacy'] as const) {
      const params = { command: process.execPath, args: [CLI, 'mcp'], cwd, stderr: 'ignore' as const }
      const client = new Client(
        { name: 'test', version: '1' },
        { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
      )
      const asked: unknown[] = []
      let action: 'accept' | 'decline' = 'accept'
      client.setRequestHandler('elicitation/create', ({ params: { message } }) => {
        asked.push(message)
        return { action, content: {} }
      })
      await client.connect(new StdioClientTransport(params))
      onTestFinished(() => client.close())
      const erase = (input: string) => client.callTool({ name: 'erase', arguments: { input } })
      const eraseFile = (name: string) => client.callTool({ name: 'erase_file', arguments: { name } })
      expect(await erase('a')).toMatchObject({ content: [{ text: 'a is deleted' }] })
      expect(await eraseFile('b/c')).toMatchObject({ content: [{ text: '{"deleted":"b/c"}' }] })
      action = 'decline'
      expect(await erase('a')).toMatchObject({ content: [{ text: 'Nothing is deleted' }] })
      expect(await eraseFile('b/c')).toMatchObject({
        isError: true,
        content: [{ text: 'Nothing is deleted' }],
      })
      expect(asked).toEqual(['Delete it?', 'Delete "b/c"?', 'Delete it?', 'Delete "b/c"?'])
    }
  },
  600_000,
)
