import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { StateInvalidError, StateUntrustedError, StateUnwritableError } from '../../errors/errors.ts'
import { problemWithPath } from '../../platform/trusted-path.ts'
import { expect, JsonProblem, readObject, readTextField } from '../json-fields.ts'
import { type ModuleStore, storeInFolder, writeWhole } from '../state-folder.ts'
import type { FleetRevision } from './fleet-store.ts'
import { readRevision } from './head-json.ts'

/** The state that a node served last, in its state folder: it boots from it while the store does not answer. */
export interface LastCopy {
  /** Modules by digest. */
  readonly modules: ModuleStore
  /** @throws `StateInvalidError`, `StateUntrustedError` */
  read(): Promise<CopiedState | undefined>
  /** @throws `StateUnwritableError` */
  write(state: CopiedState): Promise<void>
}

export interface CopiedState {
  /** The id of the fleet. */
  readonly fleet: string
  readonly revision: FleetRevision
  /** The contents that the revision names. */
  readonly configuration: string
  readonly edits: string
}

const FILE = 'fleet.json'

/** Incremented when a change makes the format unreadable for older versions. */
const FORMAT = 1

/** Only the process's user and root may have write access: the content becomes plug-ins that run. */
export function lastCopyIn(folder: string): LastCopy {
  const modules = storeInFolder(folder)
  const path = join(folder, FILE)
  return {
    modules,
    async read() {
      const problem = [folder, path, modules.place]
        .map((each) => problemWithPath(each))
        .find((problem) => problem !== undefined)
      if (problem !== undefined) throw new StateUntrustedError(folder, problem)
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return undefined
        throw new StateInvalidError(folder, error.message, { cause: error })
      })
      if (text === undefined) return undefined
      try {
        return parseCopy(text)
      } catch (error) {
        if (!(error instanceof JsonProblem || error instanceof SyntaxError)) throw error
        throw new StateInvalidError(folder, `${FILE}: ${error.message}`)
      }
    },
    async write(state) {
      await writeWhole(folder, FILE, `${JSON.stringify({ format: FORMAT, ...state })}\n`).catch((error) => {
        throw new StateUnwritableError(folder, error.message, { cause: error })
      })
    },
  }
}

function parseCopy(text: string): CopiedState {
  const { format, fleet, revision, configuration, edits } = readObject(JSON.parse(text), 'it')
  expect(format === FORMAT, `its format is not ${FORMAT}, which this version reads`)
  return {
    fleet: readTextField(fleet, 'fleet'),
    revision: readRevision(revision, 'revision'),
    configuration: readTextField(configuration, 'configuration'),
    edits: readTextField(edits, 'edits'),
  }
}
