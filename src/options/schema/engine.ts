import { Type } from 'typebox'
import { bytes, countOption, ms, option, threadCount, withDefault } from './option.ts'

/** Options of a route: where its guests run, and the calls that wait. */
export const engineOptions = {
  engine: option(
    { reach: 'load', edit: true },
    Type.Optional(
      Type.Enum(['inline', 'workers', 'subprocess'], {
        description:
          'Where guests run: on the event loop, in threads, or in processes. Default: inline, or workers if something needs threads.',
      }),
    ),
  ),
  process: option(
    { owner: 'fleet', allow: 'processes' },
    Type.Optional(
      Type.String({
        minLength: 1,
        description: 'Name of a group of processes. Routes with the same name share them. (subprocess)',
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
        description: 'Spare threads or processes, which replace one that was ended.',
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
          "Deadline of a call, in ms; then 504. Default: the manifest's, else 1000; 30000 with the contract `hyper-mcp` and allowed hosts.",
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
          'Maximum work of a call, in checks for interrupts; then 504. It is the same on every machine. Default: no limit. (kernel)',
      }),
    ),
  ),
  idempotent: option(
    { edit: true, guest: false },
    withDefault(
      Type.Boolean({
        default: false,
        description: 'Run a call a second time if its thread or process was lost.',
      }),
    ),
  ),
  cancelOnDisconnect: option(
    { reach: 'answer', edit: true, guest: false },
    withDefault(
      Type.Boolean({
        default: false,
        description:
          'End a guest in a thread or process, or a slow one on the event loop (Node.js 24), when its client closes the connection, or its side of it. (not streams: their guests end some time after it)',
      }),
    ),
  ),
  vars: option(
    { edit: true },
    withDefault(
      Type.Enum(['own', 'shared'], {
        default: 'own',
        description:
          '`own`: each instance has its variables. `shared`: all instances of a plug-in share them.',
      }),
    ),
  ),
  startTimeoutMs: option(
    { edit: true },
    ms('Time limit for the start of a thread or process with its instance, in ms.', 5_000),
  ),
  maxQueue: option(
    { edit: true, guest: false },
    countOption('Maximum number of calls that wait for an instance. Further calls get 503.', 1_000),
  ),
  maxQueueBytes: option(
    { edit: true, guest: false },
    bytes('Maximum bytes of input that wait. Further calls get 503.', 67_108_864),
  ),
  maxWaitMs: option(
    { edit: true, guest: false },
    ms('Maximum time that a call waits for an instance, in ms; then 503. (workers, subprocess, lazy)', 5_000),
  ),
}
