import { failure } from './failure.ts'

/* What the command, its options and its files ask for and cannot have. */

/** The command line or an environment variable cannot be understood. The command exits with 2. */
export const UsageError = failure<[problem: string]>('WASM_SERVE_USAGE_INVALID', '%s')

/** One or more options are wrong; the message lists all of them. */
export const OptionsError = failure<[problems: string]>('WASM_SERVE_OPTIONS_INVALID', 'Invalid options:\n%s')

/** The config file cannot be read: there is none, it is too large, it is not UTF-8, or there are several. */
export const ConfigUnreadableError = failure<[file: string, reason: string]>(
  'WASM_SERVE_CONFIG_UNREADABLE',
  'Cannot read config file %s: %s',
)

/** The config file is wrong; the message lists every problem with line and column. */
export const ConfigInvalidError = failure<[file: string, problems: string]>(
  'WASM_SERVE_CONFIG_INVALID',
  'Config file %s is not valid:\n%s',
)

/** Several plug-ins or routes would have the same URL; the message lists all of them. */
export const MountConflictError = failure<[conflicts: string]>(
  'WASM_SERVE_MOUNT_CONFLICT',
  'Several routes have the same URL:\n%s',
)

/** `wasm-serve check` found something, or a start several things; the message lists all. The command exits with 2. */
export const CheckFailedError = failure<[problems: string]>('WASM_SERVE_CHECK_FAILED', '%s')

/** A folder for a new project cannot be had: it has files, it is none, or it cannot be written. */
export const ProjectNotMadeError = failure<[name: string, reason: string]>(
  'WASM_SERVE_PROJECT_NOT_MADE',
  'No project was made in %s: %s',
)

/** The file that a guest is to get as its input cannot be read. */
export const InputUnreadableError = failure<[path: string, reason: string]>(
  'WASM_SERVE_INPUT_UNREADABLE',
  'Cannot read the input %s: %s',
)

/** The file for the result of a command cannot be written. */
export const OutputUnwritableError = failure<[path: string, reason: string]>(
  'WASM_SERVE_OUTPUT_UNWRITABLE',
  'Cannot write %s: %s',
)

/** A package that only some need, and that does not come with this one, is not installed. */
export const PackageMissingError = failure<[name: string, purpose: string, remedy: string]>(
  'WASM_SERVE_PACKAGE_MISSING',
  'The package %s, which %s needs, is not installed: %s',
)

/** The server of a bench did not start, or did not answer as it should before the load began. */
export const BenchServerError = failure<[flags: string, reason: string]>(
  'WASM_SERVE_BENCH_SERVER_FAILED',
  'The server to measure (%s) cannot be measured: %s',
)

/** Under load, some answers were wrong, failed or did not come. */
export const BenchAnswersError = failure<[problems: string]>(
  'WASM_SERVE_BENCH_ANSWERS_WRONG',
  'Not all answers were right: %s',
)
