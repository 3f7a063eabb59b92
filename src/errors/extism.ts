import { failure } from './failure.ts'

/* What plug-ins of `wasm-serve/extism` meet, where the SDK has no error of its own. */

/** `getInstance` was called for a plug-in with `runInWorker`. */
export const InstanceRemoteError = failure(
  'WASM_SERVE_EXTISM_INSTANCE_REMOTE',
  'The instance of the plug-in is in a thread, which it cannot leave: getInstance needs a plug-in without runInWorker',
)

/** The plug-in was closed while a call of it ran. */
export const ExtismPluginClosedError = failure(
  'WASM_SERVE_EXTISM_PLUGIN_CLOSED',
  'The plug-in was closed while a call of it ran',
)

/** The thread of the plug-in ended while a call ran; the next call starts another. */
export const ExtismThreadLostError = failure<[code: number]>(
  'WASM_SERVE_EXTISM_THREAD_LOST',
  'The thread of the plug-in ended with code %d while a call ran',
)

/** The input of a call is larger than the blocks that a call may have. */
export const ExtismInputTooLargeError = failure<[bytes: number]>(
  'WASM_SERVE_EXTISM_INPUT_TOO_LARGE',
  'There is no room for an input of %d bytes: memory.maxPages limits what a call may exchange with its host',
)
