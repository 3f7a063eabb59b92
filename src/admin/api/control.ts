import type { Book, BookedRoute, Edit } from '../../deploy/book.ts'
import type { ChangeRecord } from '../../deploy/change-record.ts'
import type { Changer, Wanted } from '../../deploy/changer.ts'
import type { LoadOptions, Plugin } from '../../plugin/plugin.ts'
import type { Source } from '../../plugin/source/source.ts'

/** What is served, with the routes that it was planned from, in their order. */
export interface ControlledWanted extends Wanted {
  readonly planned: readonly BookedRoute[]
}

/** How the admin API changes what is served. */
export interface Control {
  readonly changer: Changer<ControlledWanted>
  readonly book: Book
  /**
   * Makes a change, and keeps it.
   *
   * @param modules - Bytes that it brings along, by digest.
   * @param signal - Ends it, unless it is about to go live.
   * @throws why it is not live.
   */
  change(
    reason: string,
    edit: Edit,
    modules?: ReadonlyMap<string, Uint8Array>,
    signal?: AbortSignal,
  ): Promise<ChangeRecord>
  /** JSON without what is shown nowhere. */
  hideSecrets(json: string): string
  /** Reads a plug-in of the network, by the rules and limits of the command line. */
  download(url: string, signal: AbortSignal): Promise<Source>
  /** Looks whether a plug-in can be loaded, off the event loop, as the server was told to load. @throws why it cannot. */
  compile(source: Source, options: Pick<LoadOptions, 'memoryMax'>, signal: AbortSignal): Promise<Plugin>
}
