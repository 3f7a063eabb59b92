import type { UncompiledModule } from '../../plugin/plugin.ts'
import type { WorkerStart } from '../workers/protocol.ts'

/** What a process is given to open an instance from. It compiles the modules: nothing of them was seen by an engine before. */
export interface ProcessStart
  extends Pick<WorkerStart, 'settings' | 'functions' | 'isolation' | 'hostParts'> {
  readonly plugin: UncompiledPlugin
}

/** A plug-in whose modules were read, checked and capped, and not compiled. */
export interface UncompiledPlugin {
  readonly name: string
  readonly digest: string
  readonly modules: readonly UncompiledModule[]
}
