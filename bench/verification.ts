import { collectEvidence } from '../src/plugin/trust/evidence.ts'
import { openTrust } from '../src/plugin/trust/trust.ts'
import { verifyArtifact } from '../src/plugin/trust/verify.ts'
import { fixture, REPOSITORY, registryWith, snapshot } from '../test/support/signatures.ts'
import { median } from './statistics.ts'

/** Signatures of cosign with each kind of key: a bundle of version 3, and one of version 2. */
const FIXTURES = ['cosign3-p256', 'cosign3-p384', 'cosign3-rsa', 'cosign2-p256']

const CALLS = 50

/** The median time of a verification of an artifact, in ms, of the slowest kind. */
export async function measureVerification(): Promise<number> {
  const times: number[] = []
  for (const name of FIXTURES) {
    const stored = snapshot(name)
    const key = fixture(`keys/${name.split('-')[1]}.pub`)
    const policy = (await openTrust({ '*': { keys: [key] } })).policyFor(undefined)
    if (!policy) throw new Error('there is no policy')
    const evidence = await collectEvidence(registryWith(stored), REPOSITORY, stored.digest)
    const runs: number[] = []
    for (let call = 0; call < CALLS; call++) {
      const begun = performance.now()
      await verifyArtifact(name, stored.digest, evidence, policy)
      runs.push(performance.now() - begun)
    }
    times.push(median(runs))
  }
  return Math.max(...times)
}
