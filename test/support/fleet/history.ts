/*
 * A check of linearizability: whether what operators have seen has an order that one copy of the state would also have.
 * The state is a register that is only changed as a whole, mostly by compare-and-set. An acknowledged change has a
 * revision, which is its place in the order; so no search is needed.
 */

/** A change of an operator. */
export interface AdminOperation {
  /** Of its content, which no other operation has. */
  readonly version: number
  /** When it was sent, in ms. */
  readonly begun: number
  /** When its answer came, or none was awaited any more. */
  readonly ended: number
  /** The revision that it has to replace; undefined: any. */
  readonly expected?: number | undefined
  /** `mismatch`: the revision was another one; `refused`: for another reason; `unknown`: made or not. */
  readonly outcome: 'ok' | 'mismatch' | 'refused' | 'unknown'
  /** Of an acknowledged operation. */
  readonly revision?: number | undefined
}

/** The state at the end. */
export interface FinalState {
  readonly revision: number
  readonly version: number
}

/** The reasons that a history has no order; none if it has one. */
export function historyProblems(operations: readonly AdminOperation[], final?: FinalState): string[] {
  const acknowledged = operations
    .flatMap((operation) => (operation.outcome === 'ok' ? [withRevision(operation)] : []))
    .sort((one, other) => one.revision - other.revision)
  return [
    ...acknowledged.flatMap((operation, index) => orderProblems(operation, acknowledged[index - 1])),
    ...realTimeProblems(acknowledged),
    ...operations.flatMap((operation) => mismatchProblems(operation, operations)),
    ...(final ? finalProblems(final, operations, acknowledged) : []),
  ]
}

/**
 * The reasons that answers of one server do not follow the order.
 *
 * @param seen - Pairs of versions that followed each other on one connection.
 */
export function readProblems(
  operations: readonly AdminOperation[],
  seen: Iterable<readonly [before: number, after: number]>,
): string[] {
  const byVersion = new Map(operations.map((operation) => [operation.version, operation]))
  return [...seen].flatMap(([before, after]) => {
    const [one, other] = [byVersion.get(before), byVersion.get(after)]
    if (other?.outcome === 'refused' || other?.outcome === 'mismatch')
      return [`version ${after} was served, and it was refused`]
    const isBack = (one?.revision ?? 0) > (other?.revision ?? Number.POSITIVE_INFINITY)
    return isBack ? [`version ${before} was followed by ${after}, which is older`] : []
  })
}

type Acknowledged = AdminOperation & { readonly revision: number }

function withRevision(operation: AdminOperation): Acknowledged {
  const { revision, version } = operation
  if (revision === undefined) throw new Error(`version ${version} has no revision`)
  return { ...operation, revision }
}

function orderProblems(
  { version, revision, expected }: Acknowledged,
  before: Acknowledged | undefined,
): string[] {
  if (before?.revision === revision)
    return [`versions ${before.version} and ${version} both are revision ${revision}`]
  if (expected === undefined) return []
  if (expected >= revision) return [`version ${version} replaced revision ${expected} as ${revision}`]
  if (before && before.revision > expected)
    return [`version ${version} replaced revision ${before.revision}, and expected ${expected}`]
  return []
}

/** An operation that ended before another one began has a lower revision. */
function realTimeProblems(acknowledged: readonly Acknowledged[]): string[] {
  // The latest beginning of all with a lower revision.
  let latest: Acknowledged | undefined
  return acknowledged.flatMap((operation) => {
    const problems =
      latest && operation.ended < latest.begun
        ? [`revision ${operation.revision} ended before revision ${latest.revision} began`]
        : []
    if (!latest || operation.begun > latest.begun) latest = operation
    return problems
  })
}

/** A mismatch needs another operation that may have changed the revision before. */
function mismatchProblems(
  { outcome, expected, version, ended }: AdminOperation,
  operations: readonly AdminOperation[],
): string[] {
  if (outcome !== 'mismatch' || expected === undefined) return []
  const hasReason = operations.some(
    (other) =>
      other.begun < ended &&
      (other.outcome === 'unknown' || (other.outcome === 'ok' && (other.revision ?? 0) > expected)),
  )
  return hasReason
    ? []
    : [`version ${version} did not match revision ${expected}, which nothing had replaced`]
}

function finalProblems(
  { revision, version }: FinalState,
  operations: readonly AdminOperation[],
  acknowledged: readonly Acknowledged[],
): string[] {
  const last = acknowledged.at(-1)
  if (!last) return []
  if (last.revision > revision)
    return [`revision ${last.revision} was acknowledged, and the last one is ${revision}`]
  if (last.version === version) return []
  const { outcome } = operations.find((operation) => operation.version === version) ?? {}
  return outcome === 'unknown'
    ? []
    : [`the last version is ${version}, and that of revision ${last.revision} is ${last.version}`]
}
