import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandConfiguration } from '../deploy/configuration.ts'
import { reload } from '../deploy/deployments.ts'
import { openDeployments, serveDeployments } from '../deploy/start.ts'
import { UsageError } from '../errors/errors.ts'
import { bridgeStdio } from '../mcp/stdio.ts'
import { openLog } from '../observe/log/log.ts'
import { readConfig } from '../options/config.ts'
import { MCP_DEFAULTS } from '../options/mcp-defaults.ts'
import { type Command, renderPage } from './command.ts'

const HELP = renderPage({
  usage: 'wasm-serve mcp <plugin.wasm | folder>... [flags]',
  about:
    'Serves plug-ins as tools to one agent (MCP) over standard input and output, for\nclients that start their servers. The log goes to standard error.',
  examples: [
    'wasm-serve mcp hello.wasm',
    'wasm-serve mcp tools/ --timeout 5000',
    'wasm-serve mcp -c wasm-serve.yaml',
  ],
  flags: {},
  more: 'Flags of serve work too, except those about addresses. (help flags)',
})

/** Serves until the client closes standard input. Nothing but messages is written to standard output. */
export const mcp: Command = {
  async run(argv, host) {
    const folder = mkdtempSync(join(tmpdir(), 'wasm-serve-mcp-')) // only this user may enter it
    const removeFolder = () => rmSync(folder, { recursive: true, force: true })
    try {
      const socketPath = join(folder, 'mcp.sock')
      const own = ['--mcp', `--socket=${socketPath}`, '--drain-ms=0']
      const config = readConfig([...argv, ...own], host.environment)
      if (config.help) return host.out.write(HELP)
      let log = openLog('silent')
      const deployments = await openDeployments(
        commandConfiguration(config, host),
        ({ logLevel, apiKeys, jwt }) => {
          if (apiKeys || jwt)
            throw new UsageError(
              'mcp: apiKeys and jwt let no client in, because standard input has no headers',
            )
          log = openLog(logLevel, { terminal: host.logTerminal, lines: host.logLines, secrets: host.secrets })
          return { log }
        },
      )
      const { options, warnings } = deployments.current
      for (const warning of warnings) log.warn(warning)
      const server = await serveDeployments(deployments, log)
      const drain = () => server.drain().finally(removeFolder) // after a signal, the process ends with it
      const again = () => void deployments.apply(reload, 'SIGHUP').catch(() => undefined) // failures are already reported
      host.signals.endWith({ ...server, drain }, options, log, again)
      const path = options.mcp?.url ?? MCP_DEFAULTS.url
      await bridgeStdio({ socketPath, path }, host.readLines(), (line) => host.out.write(`${line}\n`))
      await server.drain()
    } finally {
      removeFolder()
    }
  },
}
