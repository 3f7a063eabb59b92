import { Type } from 'typebox'
import { bytes, countOption, ms, option, threadCount, withDefault } from './option.ts'

/** Options of a route: where its guests run, and the calls that wait. */
export const engineOptions = {
  engine: option(
    { reach: 'load', edit: true },
    Type.Optional(
      Type.Enum(['inline', 'workers', 'subprocess'], {
        description:
          'Where guests run: event loop (`inline`), threads (`workers`) or processes (`subprocess`). Default: inline, or workers if another option requires threads.',
      }),
    ),
  ),
  process: option(
    { owner: 'fleet', allow: 'processes' },
    Type.Optional(
      Type.String({
        minLength: 1,
        description: 'Process group. Routes with the same name share processes. (subprocess)',
      }),
    ),
  ),
  workers: option(
    { edit: true },
    Type.Optional(threadCount('Number of threads or processes; `auto`: one per core. Default: 1 if needed.')),
  ),
  spareWorkers: option(
    { edit: true, guest: false },
    withDefault(
      Type.Integer({
        minimum: 0,
        maximum: 256,
        default: 1,
        description: 'Number of spare threads or processes, which replace terminated ones.',
      }),
    ),
  ),
  timeoutMs: option(
    { flag: 'timeout', edit: true },
    Type.Optional(
      Type.Integer({
        unit: 'ms',
        minimum: 1,
        maximum: 2_147_483_647,
        description:
          "Deadline of a call, in ms; then 504. Default: the manifest's, or 1000; 30000 with `hyper-mcp` and allowed hosts.",
      }),
    ),
  ),
  budget: option(
    { edit: true, errors: ['WASM_SERVE_BUDGET_EXCEEDED'] },
    Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 2_147_483_647,
        description:
          'Maximum work of a call, in interrupt checks, the same on every machine; then 504. Default: no limit. (kernel)',
      }),
    ),
  ),
  idempotent: option(
    { edit: true, guest: false },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Retry a call once if its thread or process was lost.',
      }),
    ),
  ),
  cancelOnDisconnect: option(
    { reach: 'answer', edit: true, guest: false },
    withDefault(
      Type.Boolean({
        default: false,
        description:
          'Terminate the guest if the client disconnects. On the event loop: slow guests only, Node.js 24. Guests of streams stop later.',
      }),
    ),
  ),
  vars: option(
    { edit: true },
    withDefault(
      Type.Enum(['own', 'shared'], {
        default: 'own',
        description: 'Variables per instance (`own`), or for all instances of the plug-in (`shared`).',
      }),
    ),
  ),
  startTimeoutMs: option(
    { edit: true },
    ms('Time limit for the start of a thread or process, in ms.', 5_000),
  ),
  maxQueue: option(
    { edit: true, guest: false },
    countOption('Maximum number of waiting calls; further ones get 503.', 1_000),
  ),
  maxQueueBytes: option(
    { edit: true, guest: false },
    bytes('Maximum input of waiting calls, in bytes; further calls get 503.', 67_108_864),
  ),
  maxWaitMs: option(
    { edit: true, guest: false },
    ms('Maximum time that a call waits, in ms; then 503. (workers, subprocess, lazy)', 5_000),
  ),
}
