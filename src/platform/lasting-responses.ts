/** Responses that continue when their app is replaced. */
const lasting = new WeakSet<object>()

/** Marks a stream that outlives its app: closing the app need not wait for it. */
export function keepBeyondApp(response: object): void {
  lasting.add(response)
}

/** Whether {@link keepBeyondApp} has marked it. */
export function outlivesApp(response: object): boolean {
  return lasting.has(response)
}
