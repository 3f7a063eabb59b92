import { expect, onTestFinished, test } from 'vitest'
import { pullPlugin } from '../../../../src/plugin/oci/pull.ts'
import { openTrust } from '../../../../src/plugin/trust/trust.ts'
import { guestBytes } from '../../../support/guest.ts'
import { openOciRegistry } from '../../../support/oci-registry.ts'
import { temporaryFolder } from '../../../support/registry-client.ts'
import { putPlugin, REGISTRY_NAME, signManifest } from '../../../support/registry-plugins.ts'
import { makeKey } from '../../../support/signatures.ts'

/** A registry with a plug-in, its reference, and an empty cache. */
async function openPlugin() {
  const remote = await openOciRegistry()
  const stored = putPlugin(remote, guestBytes('echo'), '1')
  const place = { registry: remote.host, repository: REGISTRY_NAME }
  const reference = { ...place, tag: '1', digest: undefined, pin: undefined }
  return { remote, stored, reference, cacheFolder: temporaryFolder() }
}

test('a tag whose digest is known has it without the registry, also later', async () => {
  const { remote, stored, reference, cacheFolder } = await openPlugin()
  const { digest } = stored
  expect((await pullPlugin(reference, { digest, cacheFolder })).digest).toBe(digest)
  expect(remote.requests.filter(({ method }) => method === 'HEAD')).toEqual([])
  await remote.close()
  expect((await pullPlugin(reference, { policy: 'Never', cacheFolder })).digest).toBe(digest)
})

test('signatures that were kept do not hide those that another policy demands', async () => {
  const { remote, stored, reference, cacheFolder } = await openPlugin()
  const keys = [makeKey(), makeKey()]
  const signers: unknown[] = []
  for (const key of keys) {
    onTestFinished(() => key.close())
    signManifest(remote, stored, key.privateKey)
    const trust = await openTrust({ '*': { keys: [key.path] } })
    const { signed } = await pullPlugin(reference, { trust, cacheFolder })
    signers.push(signed?.signer)
  }
  expect(signers).toHaveLength(2)
  expect(signers[0]).not.toEqual(signers[1])
})
