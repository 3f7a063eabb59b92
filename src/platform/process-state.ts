/**
 * What all servers in one process share, and why. Everything else belongs to a server, a route or an instance. A test
 * finds each variable of a module that is not in this table; caches that are keyed by an object (`WeakMap`) live as long
 * as that object and are not listed.
 */
export const PROCESS_STATE: Readonly<Record<string, string>> = {
  'admin/metrics.ts processMetrics': 'The metrics of the process and of Node.js.',
  'contract/json-machine.ts machine': 'The JSON scanner, compiled once. It keeps nothing between two calls.',
  'engine/engine.ts openEndables':
    'Engines whose calls are terminated when the process exits. Closing one server does not touch them.',
  'engine/turn-scheduler.ts slowGuests': 'The slow guests of all servers take turns: a process has one loop.',
  'engine/turn-scheduler.ts processReads':
    'Clients that send many small pieces or requests take turns: a process has one loop.',
  'engine/suspending.ts NEVER': 'A signal that is never aborted.',
  'engine/watchdog.ts watchdog': 'The thread that watches the event loop: a process has one loop.',
  'engine/watchdog.ts lastRun': 'The number of the last run of a guest: each thread has one loop.',
  'engine/slices.ts slices': 'Slow guests run one slice in a turn of the event loop: a process has one loop.',
  'engine/watchdog.ts interrupted': 'Guests that were interrupted, until their engine asks.',
  'engine/runners/runner-pool.ts processStarts': 'The queue of threads that start: they share the cores.',
  'engine/workers/thread-start.ts prestarted': 'A thread that the command starts before it knows its work.',
  'engine/workers/trial.ts idleThreads': 'Threads in which plug-ins are tried, one after another.',
  'errors/failure.ts classes': 'Error classes by code, filled while modules load.',
  'extism/call-queue.ts hosting': 'Calls whose host functions run: while there are none, nothing is tracked.',
  'extism/call-queue.ts innermost': 'The call whose host function runs, in each chain of promises.',
  'extism/deferred-input.ts deferredModule': 'A form of the kernel, compiled once.',
  'runtime/kernel-module.ts importingKernel': 'A form of the kernel, compiled once.',
  'module/merge.ts kernelTemplates': 'Functions of the kernel, read once.',
  'observe/log/lines.ts chunkBytes': 'Whether other processes write to the same descriptors.',
  'observe/log/lines.ts opened': 'Writers of standard output and standard error.',
  'observe/log/request-log.ts ids': 'Random ids for requests. Each is used once.',
  'observe/log/request-log.ts used': 'The number of characters of them that were used.',
  'platform/buffer-pool.ts free':
    'Free buffers for large outputs: they hold no bytes that a response may still need.',
  'platform/buffer-pool.ts freeBytes': 'Their size.',
  'platform/descriptors.ts trouble': 'Whether file descriptors are short: a process has one limit.',
  'platform/http2-answer.ts complete': 'Streams whose responses were sent in this turn.',
  'platform/node-workarounds.ts ceiling': 'A V8 flag of the process.',
  'platform/node-workarounds.ts collectYoung': 'A function of V8.',
  'platform/node-workarounds.ts detachNatively': 'A function of V8.',
  'platform/node-workarounds.ts keptTicks': 'Objects that keep a shape known to V8.',
  'platform/node-workarounds.ts readShare':
    'What was read since V8 was last asked to collect: a process has one heap.',
  'platform/packages.ts packageRoot': 'The folder of this package.',
  'platform/packages.ts version': 'The version of the package, read once.',
  'platform/packed-packages.ts modules': 'The packages of each start that are loaded from one file.',
  'platform/partial-bytes.ts processPartials':
    'What has arrived of bodies and messages of which a part is missing: a process has one memory.',
  'platform/stuck-threads.ts processThreads':
    'Threads that cannot be terminated: enough of them stop the process.',
  'platform/system-errors.ts limits': 'The limits of the process.',
  'platform/text.ts ESCAPES': 'A cache of characters.',
  'plugin/compiled-modules.ts compiled': 'Equal modules are compiled once, for all routes.',
  'plugin/compiled-modules.ts loading': 'Equal modules are compiled once, for all routes.',
  'plugin/compiled-modules.ts typeBudget': 'V8 limits the types of all modules of a process.',
  'plugin/load-threads.ts idleThreads': 'Threads that load modules: two at a time, as they share the cores.',
  'plugin/load-threads.ts running': 'Threads that load modules: two at a time, as they share the cores.',
  'plugin/load-threads.ts waiting': 'Threads that load modules: two at a time, as they share the cores.',
  'route/request-batches.ts processBatches':
    'Calls of one turn of the event loop run together: a process has one loop.',
  'route/route-pool.ts lastNumber': 'The last number given to a compiled module; numbers are only compared.',
  'runtime/interrupts.ts check':
    'The function with which guests check whether they are interrupted, compiled once.',
  'runtime/interrupts.ts look':
    'What a thread looks at while its guests run, if no other thread can interrupt them.',
  'runtime/interrupts.ts words': 'The same, as numbers.',
  'runtime/interrupts.ts memory': 'The number of the run of this thread, which other threads interrupt.',
  'runtime/return-code.ts importer': 'A module that imports a function of type i32, compiled once.',
  'runtime/wasi/wasi.ts used': 'A pool of random bytes. Each is used once.',
  'server/http2-request.ts frames':
    'Frames of HTTP/2 bodies, of which each 1,024th has its connection rest: a process has one loop.',
  'server/http-server.ts lastHost': 'A host that was found to be valid.',
}
