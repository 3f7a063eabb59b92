import { hostname, userInfo } from 'node:os'
import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import { type OwnOptions, readOwnOptions } from '../../deploy/configuration.ts'
import {
  applyConfiguration,
  type Configuring,
  compareConfiguration,
} from '../../deploy/fleet/apply-configuration.ts'
import { appliedByAll, headOf, namesOf, revertTo, writeHead } from '../../deploy/fleet/changes.ts'
import { isEmpty } from '../../deploy/fleet/difference.ts'
import { checkedConfiguration, filesConfiguration } from '../../deploy/fleet/files-configuration.ts'
import type { FleetHead, FleetStore } from '../../deploy/fleet/fleet-store.ts'
import { viewFleet, viewRevision } from '../../deploy/fleet/fleet-view.ts'
import { forbiddenIn } from '../../deploy/fleet/permissions.ts'
import { openRedisFleet } from '../../deploy/fleet/redis-fleet-store.ts'
import { progressOf } from '../../deploy/fleet/rollout.ts'
import { type FleetSettings, fleetSettings } from '../../deploy/fleet/settings.ts'
import { literalSecrets, sharedOptions } from '../../deploy/fleet/shared-configuration.ts'
import { sourceOptions } from '../../deploy/loader.ts'
import { loadOptionsOf } from '../../deploy/resolve.ts'
import { FleetEmptyError, UsageError } from '../../errors/errors.ts'
import { type Config, PARSED_FLAGS, readConfig } from '../../options/config.ts'
import { renderOrigin } from '../../options/config-node.ts'
import { didYouMean, printable } from '../../platform/text.ts'
import {
  type Command,
  type ExitCode,
  type Host,
  type OwnValues,
  renderPage,
  takeOwnFlags,
} from '../command.ts'
import { showTransfers } from '../progress.ts'
import { renderDifference, renderHistory, renderStatus } from './fleet-text.ts'

/** Flags of this command only. */
export const FLEET_FLAGS = {
  file: { kind: 'text', short: 'f', placeholder: 'path', description: 'The config file, like -c.' },
  reason: { kind: 'text', placeholder: 'text', description: 'Apply: the reason, for the history.' },
  by: { kind: 'text', placeholder: 'name', description: 'Apply, rollback: the author. Default: user@host.' },
  expect: {
    kind: 'text',
    placeholder: 'revision',
    description: 'Apply: only if this revision is the newest; 0: none exists.',
  },
  wait: { kind: 'switch', description: 'Apply, rollback: wait until all nodes serve it.' },
  json: { kind: 'switch', description: 'Print JSON.' },
  help: { kind: 'switch', short: 'h', description: 'Show this page.' },
} as const

const HELP = renderPage({
  usage: 'wasm-serve fleet status|history|diff|apply|rollback [REVISION] [flags]',
  about:
    'Shows or changes what the nodes of a fleet serve. The store is that of a node:\n--fleet, --fleet-name, or fleet in the config file.',
  examples: [
    'wasm-serve fleet status --fleet redis://localhost',
    'wasm-serve fleet diff -f wasm-serve.yaml',
    'wasm-serve fleet apply -f wasm-serve.yaml --reason "hello 1.2" --wait',
    'wasm-serve fleet rollback',
  ],
  flags: FLEET_FLAGS,
  more: 'Exits with 1 after an error, or if a node refuses the newest revision (status),\nand with 3 if not all nodes serve it yet (status), or if it differs (diff).',
})

type FleetValues = OwnValues<typeof FLEET_FLAGS>

interface FleetTask {
  readonly store: FleetStore
  readonly settings: FleetSettings
  readonly config: Config
  readonly own: OwnOptions
  readonly values: FleetValues
  /** The argument after `rollback`. */
  readonly revision: number | undefined
  readonly host: Host
}

/** The actions with their flags. */
const ACTIONS: Readonly<
  Record<
    string,
    {
      run(work: FleetTask): Promise<ExitCode | undefined>
      readonly flags: readonly (keyof FleetValues)[]
      /** Whether it reads the config file with its plug-ins. */
      readonly isReading: boolean
    }
  >
> = {
  status: { run: showStatus, flags: [], isReading: false },
  history: { run: showHistory, flags: [], isReading: false },
  diff: { run: showDifference, flags: [], isReading: true },
  apply: { run: applyFiles, flags: ['reason', 'by', 'expect', 'wait'], isReading: true },
  rollback: { run: rollBack, flags: ['by', 'wait'], isReading: false },
}

/** The arguments after `fleet`. */
export const FLEET_ACTIONS: readonly string[] = Object.keys(ACTIONS)

/** Flags of some actions only. */
const FLAGS_OF_ACTIONS = ['reason', 'by', 'expect', 'wait'] as const

/** Shows and changes a fleet, without a node. */
export const fleetCommand: Command = {
  async run(argv, host): Promise<ExitCode | undefined> {
    const { values, rest } = takeOwnFlags(argv, FLEET_FLAGS)
    if (values.help) {
      host.out.write(HELP)
      return undefined
    }
    const [word, ...others] = rest
    const action = word !== undefined && Object.hasOwn(ACTIONS, word) ? ACTIONS[word] : undefined
    if (word === undefined || word.startsWith('-'))
      throw new UsageError(`fleet: name an action first, ${FLEET_ACTIONS.join(', ')}`)
    if (!action)
      throw new UsageError(
        `fleet: unknown action "${word}": use one of ${FLEET_ACTIONS.join(', ')}${didYouMean(word, FLEET_ACTIONS)}`,
      )
    for (const name of FLAGS_OF_ACTIONS) {
      const isSet = values[name] !== undefined && values[name] !== false
      if (isSet && !action.flags.includes(name)) throw new UsageError(`--${name}: not for fleet ${word}`)
    }
    const [first, second] = wordsOf(others)
    const found = word === 'rollback' ? first : undefined
    const tooMany = found ? second : first
    if (tooMany) throw new UsageError(`fleet ${word}: unexpected argument "${tooMany.value}"`)
    const revision = found && readRevision(found.value, 'fleet rollback', 1)
    const flags = others.filter((_word, index) => index !== found?.index)
    const config = readFleetConfig(flags, word, action.isReading, values, host)
    const own = await readOwnOptions(config, host)
    const settings = fleetSettings(own)
    if (!settings)
      throw new UsageError('fleet: name its store: --fleet redis://HOST, or "fleet" in the config file')
    if (action.isReading && own.file === undefined)
      throw new UsageError(`fleet ${word}: name a config file, such as -f wasm-serve.yaml`)
    const { url, name, keyPrefix, history } = settings
    const store = await openRedisFleet({ url, fleet: name, keyPrefix, history })
    try {
      return await action.run({ store, settings, config, own, values, revision, host })
    } finally {
      await store.close()
    }
  },
}

/** The words that are neither flags nor their values; a word of digits would be taken for the port later. */
function wordsOf(argv: readonly string[]): readonly { readonly value: string; readonly index: number }[] {
  const { tokens } = parseArgs({ args: [...argv], options: PARSED_FLAGS, strict: false, tokens: true })
  return tokens.filter((token) => token.kind === 'positional')
}

/** @throws {@link UsageError} for flags that stay with a node. */
function readFleetConfig(
  argv: readonly string[],
  word: string,
  isReading: boolean,
  { file }: FleetValues,
  { environment }: Host,
): Config {
  const { WASM_SERVE_MANIFEST: _, ...others } = environment // it names what a node serves without a config file
  const config = readConfig(argv, others)
  const { flags, configFile } = config
  const { fleet: _fleet, ...server } = Object.fromEntries(flags.server.entries)
  const loading = isReading ? [] : flags.load.entries.values()
  for (const { origin } of [...flags.route.entries.values(), ...Object.values(server), ...loading])
    throw new UsageError(`${renderOrigin(origin)}: not supported by fleet ${word}: set it in the config file`)
  return { ...config, configFile: file ?? configFile }
}

function readRevision(text: string, name: string, least: number): number {
  if (/^\d{1,15}$/.test(text) && Number(text) >= least) return Number(text)
  throw new UsageError(`${name}: the revision must be a whole number from ${least}, not "${text}"`)
}

async function showStatus({ store, values, host }: FleetTask): Promise<ExitCode> {
  const [head, seen, revisions] = await Promise.all([headOf(store), store.nodes(), store.revisions()])
  if (!head) throw new FleetEmptyError(store.name)
  const fleet = { ...seen, name: store.name, head, revisions }
  if (values.json) printJson(host, viewFleet(fleet))
  else host.out.write(renderStatus(store.name, head, seen))
  return STATUS_CODES[progressOf(head, seen)]
}

const STATUS_CODES = { served: 0, refused: 1, underway: 3 } as const

async function showHistory({ store, values, host }: FleetTask): Promise<undefined> {
  const revisions = await store.revisions()
  if (revisions.length === 0) throw new FleetEmptyError(store.name)
  if (values.json) printJson(host, revisions.map(viewRevision))
  else host.out.write(renderHistory(revisions))
}

async function showDifference(work: FleetTask): Promise<ExitCode> {
  const { store, config, values, host } = work
  const read = filesConfiguration(config, host)
  const { head, difference } = await compareConfiguration(store, { read, sources: sourcesOf(work) })
  const revision = head?.newest.revision ?? 0
  if (values.json) printJson(host, { revision, ...difference })
  else if (isEmpty(difference)) host.out.write(`Nothing differs from revision ${revision}.\n`)
  else host.out.write(host.secrets.hide(renderDifference(difference)))
  return isEmpty(difference) ? 0 : 3
}

async function applyFiles(work: FleetTask): Promise<undefined> {
  const { store, settings, config, own, values, host } = work
  const applied = await applyConfiguration(store, {
    ...settings,
    read: checkedConfiguration(config, { ...host, onTransfer: showTransfers(host, 'pulled') }),
    sources: sourcesOf(work),
    by: readText('by', values.by) ?? operator(),
    reason: readText('reason', values.reason) ?? `apply ${basename(own.file ?? '')}`,
    expected: values.expect === undefined ? undefined : readRevision(values.expect, '--expect', 0),
  })
  const { head, desired, difference, isNew } = applied
  const { configuration, warnings } = desired
  for (const origin of literalSecrets(configuration))
    warn(host, `${renderOrigin(origin)}: this secret is stored in clear text: use a variable, \${NAME}`)
  const shared = { ...configuration, server: sharedOptions(configuration.server) }
  for (const reason of forbiddenIn(shared, settings.permissions)) warn(host, `nodes may refuse it: ${reason}`)
  for (const warning of [...configuration.warnings, ...warnings]) warn(host, warning)
  const { revision } = head.newest
  if (!values.json) {
    host.out.write(host.secrets.hide(renderDifference(difference)))
    host.out.write(
      isNew ? `Revision ${revision} is stored.\n` : `Nothing differs from revision ${revision}.\n`,
    )
  }
  const nodes = await waited(work, head)
  if (values.json) printJson(host, { changed: isNew, ...viewRevision(head.newest), ...nodes, difference })
}

async function rollBack(work: FleetTask): Promise<undefined> {
  const { store, settings, values, revision, host } = work
  const head = await headOf(store)
  if (!head) throw new FleetEmptyError(store.name)
  const by = readText('by', values.by) ?? operator()
  const next = await revertTo(store, head, { ...settings, revision, by })
  await writeHead(store, head, next.head, next.uses)
  const { newest } = next.head
  if (!values.json) host.out.write(`Revision ${newest.revision} is stored: ${printable(newest.reason)}.\n`)
  const nodes = await waited(work, next.head)
  if (values.json) printJson(host, { ...viewRevision(newest), ...nodes })
}

/** How long to wait for all nodes, besides the time of the canaries. */
const WAIT_MS = 30_000

async function waited(
  { store, values, host }: FleetTask,
  { newest, rollout }: FleetHead,
): Promise<{ readonly nodes?: readonly string[] }> {
  if (!values.wait) return {}
  const canaryMs = rollout.phase === 'canary' ? rollout.canaryMs : 0
  const { live, gone } = await appliedByAll(store, newest, WAIT_MS + canaryMs)
  if (gone.length > 0) warn(host, `nodes that do not report were skipped: ${namesOf(gone)}`)
  if (!values.json)
    host.out.write(live.length === 0 ? 'No node is running.\n' : `All nodes serve it: ${live.length}.\n`)
  return { nodes: live.map(({ node }) => node) }
}

function sourcesOf({ own, host }: FleetTask): Configuring['sources'] {
  return sourceOptions(loadOptionsOf(own), host.environment, showTransfers(host, 'pulled'))
}

/** Characters of a name or a reason: a history is a table of short lines. */
const MAX_TEXT = 500

function readText(flag: string, text: string | undefined): string | undefined {
  if (text !== undefined && (text.trim() === '' || text.length > MAX_TEXT))
    throw new UsageError(`--${flag}: must have 1 to ${MAX_TEXT} characters`)
  return text
}

function operator(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    return hostname() // the user of a container may have no name
  }
}

function warn(host: Host, text: string): void {
  host.writeError(`${host.secrets.hide(printable(`warning: ${text}`))}\n`)
}

function printJson(host: Host, data: object): void {
  host.out.write(`${host.secrets.hideInJson(JSON.stringify(data, null, 2))}\n`)
}
