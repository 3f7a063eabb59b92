/** Waits for something that must fail. */
export async function refusal(attempt: () => unknown): Promise<void> {
  try {
    await attempt()
  } catch {
    return
  }
  throw new Error('it did not fail')
}
