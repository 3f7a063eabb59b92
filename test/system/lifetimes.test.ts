import { testOpeners } from '../support/leaves-nothing.ts'
import { DEPLOYMENTS, REDIS } from '../support/openers/deployments.ts'
import { ENGINES } from '../support/openers/engines.ts'
import { ROUTES, SERVERS } from '../support/openers/routes.ts'
import { SERVICES } from '../support/openers/services.ts'
import { describeWith } from '../support/tools.ts'

for (const openers of [SERVICES, ENGINES, ROUTES, SERVERS, DEPLOYMENTS]) testOpeners(openers)
describeWith(['redis-server'], () => testOpeners(REDIS))
