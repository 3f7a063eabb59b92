import { readFileSync } from 'node:fs'
import { json } from 'node:stream/consumers'

/*
 * npm sbom --sbom-format=cyclonedx | node sbom.mjs PARTS: adds the parts of the image that npm does not know, one JSON object a
 * line, and removes what differs between two builds of the same sources.
 */

const [, , path = ''] = process.argv
const { serialNumber: _, ...sbom } = await json(process.stdin)
const { timestamp: __, ...metadata } = sbom.metadata
const parts = readFileSync(path, 'utf8').trim().split('\n').map(JSON.parse)
const components = parts.map((part) => ({ type: 'library', 'bom-ref': part.purl, ...part }))
process.stdout.write(
  JSON.stringify({ ...sbom, metadata, components: [...sbom.components, ...components] }, null, 2),
)
