/** What the type library does not have yet, and V8 not on Node 20 and 22: a guest that waits for a promise. */
export interface Suspending {
  /** Makes an import for which the guest waits. */
  readonly Suspending: new (
    run: (...args: unknown[]) => unknown,
  ) => WebAssembly.ImportValue
  /** Makes a function of an export that answers later. */
  readonly promising: (run: () => unknown) => () => Promise<unknown>
}

/**
 * None where V8 has no such thing.
 *
 * @see {@link https://github.com/WebAssembly/js-promise-integration}
 */
export const suspending = 'Suspending' in WebAssembly ? (WebAssembly as unknown as Suspending) : undefined
