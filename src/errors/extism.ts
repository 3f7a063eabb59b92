import { failure } from './failure.ts'

/* Failures of `wasm-serve/extism` for which the SDK has no error of its own. */

export const InstanceRemoteError = failure({
  code: 'WASM_SERVE_EXTISM_INSTANCE_REMOTE',
  site: 'extism',
  message:
    'The instance of the plug-in lives in a worker thread: getInstance needs a plug-in without runInWorker',
  cause: '`getInstance` was called on a plug-in that runs in a worker.',
  remedy: 'Open the plug-in without `runInWorker`.',
})

export const ExtismPluginClosedError = failure({
  code: 'WASM_SERVE_EXTISM_PLUGIN_CLOSED',
  site: 'extism',
  message: 'The plug-in was closed before the call finished',
  cause: 'The plug-in was closed while a call ran or waited.',
  remedy: 'Wait for the call before `close()`.',
})

export const ExtismThreadLostError = failure({
  code: 'WASM_SERVE_EXTISM_THREAD_LOST',
  site: 'extism',
  message: 'The thread of the plug-in exited with code %d during a call',
  cause: "The plug-in's thread terminated during a call. The next call starts another.",
  remedy: 'Read the reason in the log, and call again.',
})

export const ExtismInputTooLargeError = failure({
  code: 'WASM_SERVE_EXTISM_INPUT_TOO_LARGE',
  site: 'extism',
  message:
    'An input of %d bytes does not fit: memory.maxPages limits the bytes that a call may exchange with its host',
  cause: 'The input is larger than `memory.maxPages` allows.',
  remedy: 'Raise `memory.maxPages`, or pass less.',
})
