import { expect, optional, readArray, readObject, readTextField, wholeNumber } from '../json-fields.ts'
import type { FleetHead, FleetRevision, Rollout } from './fleet-store.ts'

/* Heads and revisions as data of others: of the store, or of a file. All throw `JsonProblem`. */

export function readFleetHead(value: unknown): FleetHead {
  const { tag, fleet, newest, before, rollout } = readObject(value, 'it')
  return {
    tag: readTextField(tag, 'tag'),
    fleet: readId(fleet, 'fleet'),
    newest: readRevision(newest, 'newest'),
    before: optional(before, 'before', readRevision),
    rollout: readRollout(rollout, 'rollout'),
  }
}

export function readRevision(value: unknown, where: string): FleetRevision {
  const { revision, id, configuration, edits, at, by, reason } = readObject(value, where)
  return {
    revision: wholeNumber(revision, `${where}.revision`, 1),
    id: readId(id, `${where}.id`),
    configuration: readTextField(configuration, `${where}.configuration`),
    edits: readTextField(edits, `${where}.edits`),
    at: readTextField(at, `${where}.at`),
    by: readTextField(by, `${where}.by`),
    reason: readTextField(reason, `${where}.reason`),
  }
}

function readRollout(value: unknown, where: string): Rollout {
  const { phase, since, nodes, until, problem, onRefusals, ...rules } = readObject(value, where)
  const [knownPhase, ofRefusals] = [
    PHASES.find((each) => each === phase),
    ENDS.find((each) => each === onRefusals),
  ]
  expect(knownPhase !== undefined, `${where}.phase is not one of ${PHASES.join(', ')}`)
  expect(ofRefusals !== undefined, `${where}.onRefusals is not one of ${ENDS.join(', ')}`)
  const count = (name: string) => wholeNumber(rules[name], `${where}.${name}`)
  const countIfAny = (name: string) => (rules[name] === undefined ? undefined : count(name))
  return {
    phase: knownPhase,
    since: wholeNumber(since, `${where}.since`),
    nodes: readArray(nodes, `${where}.nodes`).map(([name, at]) => readTextField(name, at)),
    until: optional(until, `${where}.until`, wholeNumber),
    problem: optional(problem, `${where}.problem`, readTextField),
    onRefusals: ofRefusals,
    ...{ canaryNodes: countIfAny('canaryNodes'), canaryPercent: countIfAny('canaryPercent') },
    ...{ canaryMs: count('canaryMs'), maxRefusals: count('maxRefusals') },
  }
}

const PHASES = ['canary', 'all', 'done', 'stopped'] as const

const ENDS = ['stop', 'rollback'] as const

/** A part of entity tags, which are headers. */
function readId(value: unknown, where: string): string {
  expect(typeof value === 'string' && /^[!#-~]{1,128}$/.test(value), `${where} is not an id`)
  return value
}
