import { openStore } from '../../src/guest/store/open-store.ts'

/* Writes to the store that `WASM_SERVE_STORE` names, reads it again and prints the result. */

try {
  const store = await openStore(process.env.WASM_SERVE_STORE ?? '', { maxBytes: 1, timeoutMs: 2_000 })
  await store.set('n', 'k', Buffer.from('found'))
  console.log(Buffer.from((await store.get('n', 'k')) ?? []).toString())
  await store.close()
} catch (error) {
  console.log((error as { code?: string }).code)
}
