/** How a call can end, by the code of its failure. */
const OUTCOME_OF = {
  WASM_SERVE_GUEST_ERROR: 'guest_error',
  WASM_SERVE_GUEST_TRAP: 'trap',
  WASM_SERVE_GUEST_EXIT: 'exit',
  WASM_SERVE_OUTPUT_TOO_LARGE: 'output_too_large',
  WASM_SERVE_CONTRACT_BROKEN: 'contract_broken',
  WASM_SERVE_SIMPLISM_BROKEN: 'contract_broken',
  WASM_SERVE_DEADLINE_EXCEEDED: 'timeout',
  WASM_SERVE_QUEUE_FULL: 'queue_full',
  WASM_SERVE_QUEUE_SLOW: 'queue_slow',
  WASM_SERVE_BREAKER_OPEN: 'breaker_open',
  WASM_SERVE_THREADS_STUCK: 'threads_stuck',
  WASM_SERVE_CLIENT_GONE: 'client_gone',
  WASM_SERVE_WORKER_LOST: 'worker_lost',
  WASM_SERVE_HOST_UNAVAILABLE: 'host_unavailable',
  WASM_SERVE_INSTANCE_START_FAILED: 'start_failed',
  WASM_SERVE_ENGINE_CLOSED: 'closed',
  WASM_SERVE_BODY_TOO_LARGE: 'body_too_large',
} as const

/** `ok`: it was answered. `error`: none of the others, such as the failure of a contract of the user, or a bug. */
export type Outcome = 'ok' | 'error' | (typeof OUTCOME_OF)[keyof typeof OUTCOME_OF]

export const OUTCOMES: readonly Outcome[] = ['ok', ...new Set(Object.values(OUTCOME_OF)), 'error']

/** @param code - Of the error that the call ended with. */
export function outcomeOf(code: string): Outcome {
  return Object.hasOwn(OUTCOME_OF, code) ? OUTCOME_OF[code as keyof typeof OUTCOME_OF] : 'error'
}
